"""Writes a checkpoint in child processes that are killed (signal 9), at random and at each step.

Run as a program of its own, so that forking copies one thread only.
"""

import math
import os
import shutil
import signal
import sys
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np

from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint
from tests.quant.checkpoint.plans import deepseek

STEPS = ("open", "os.remove", "os.rename", "os.truncate", "shutil.copyfile")
KILLS = 20  # at random moments


def write(folder: Path, *, made: Path, seconds: float = 0.0) -> None:
    """Write the checkpoint; note each weight that is made in a file."""

    def noted(tensor: PlannedTensor) -> PlannedTensor:
        def make() -> SavedWeight:
            number = os.open(made, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            os.write(number, tensor.name.encode() + b"\n")
            os.close(number)
            time.sleep(seconds)
            return tensor.make()

        return replace(tensor, make=make)

    options = WriteOptions(
        {"torch_dtype": "bfloat16"}, beside=folder.parent / "model", shard_bytes=9000
    )
    write_checkpoint(folder, [noted(each) for each in deepseek()], AscendForm(), options)


def in_child(work: Callable[[], None], *, seconds: float) -> bool:
    """Run in a child process, killed after a time; return whether it came to its end."""
    child = os.fork()
    if child == 0:
        work()
        os._exit(0)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if os.waitpid(child, os.WNOHANG)[0]:
            return True
        time.sleep(0.0005)
    os.kill(child, signal.SIGKILL)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def killed_at(step: int, work: Callable[[], None], *, count: Path | None = None) -> bool:
    """Run in a child that kills itself before a step; return whether it came to its end.

    Args:
        step: Which one, from 1 on; 0: none.
        work: What the child does.
        count: Where the number of steps is written, at the end.
    """
    child = os.fork()
    if child == 0:
        steps = 0

        def hook(event: str, _: object) -> None:
            nonlocal steps
            steps += event in STEPS
            if steps == step and step:
                os.kill(os.getpid(), signal.SIGKILL)

        sys.addaudithook(hook)
        work()
        if count:
            count.write_text(str(steps))
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in sorted(folder.iterdir())}


def main(root: Path) -> None:
    (root / "model").mkdir()
    (root / "model" / "tokenizer.json").write_text("{}")
    (root / "model" / "old.safetensors").write_text("not copied")
    write(root / "whole", made=root / "whole.made")
    expected = contents(root / "whole")
    weights = len(deepseek())
    random, kills, finished = np.random.default_rng(7), 0, 0
    # A fast machine comes to the end before it is killed twenty times: then another one begins.
    while kills < KILLS:
        place, made = root / f"random{finished}", root / f"random{finished}.made"
        before = kills
        while not in_child(
            lambda p=place, m=made: write(p, made=m, seconds=0.004),
            seconds=random.uniform(0.0, 0.04) if kills < KILLS else math.inf,
        ):
            kills += 1
        assert contents(place) == expected
        # a kill costs one weight at most
        assert len(made.read_text().splitlines()) <= weights + kills - before
        finished += 1
    assert killed_at(0, lambda: write(root / "a", made=root / "a.made"), count=root / "steps")
    last = int((root / "steps").read_text())
    for step in (*range(1, last - 7, last // 6), *range(last - 7, last + 1)):
        place, made = root / f"{step}", root / f"{step}.made"
        assert not killed_at(step, lambda p=place, m=made: write(p, made=m))
        write(place, made=made)
        assert contents(place) == expected, step
        assert len(made.read_text().splitlines()) <= weights + 1, step
        assert not (root / f".{step}.partial").exists()
        shutil.rmtree(place)
    sys.stdout.write(f"{kills} kills, then one before each of {last} steps\n")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
