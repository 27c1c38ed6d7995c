"""Time of the host per decode step: everything that is not a kernel.

    python tests/benchmarks/step_cost.py [--pairs N]

Ours: `Engine.step(n)` over a decode plan of DeepSeek-V3's size whose launches return at once, and
`Engine.poll`, which hands the tokens out in columns; beside it the time of a caller in Python who
looks at the `Update` of every request. A stand-in does to the control tensors what the kernels
would; its time is taken off. In the same run, step by step, the scheme that prepares every step on
the host, twice where there are drafts: see two_preparations.py. It is not charged for launching
kernels, and hands tokens out as Python lists. Work that is done now and then, such as giving out
blocks, is more than its share in no median, so means are printed, too. All figures are of this
machine; nothing was measured on a card.
"""

import argparse
import statistics
import time
from dataclasses import dataclass

import numpy as np
import torch
from numpy.typing import NDArray

from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.serving_config import ServingConfig
from tests.benchmarks.parts.simulated_device import (
    ACCEPTANCE,
    BLOCK_TOKENS,
    CONTEXT,
    GROUP,
    VOCABULARY,
    SimulatedDevice,
    decode_plan,
    main_launches,
)
from tests.benchmarks.parts.two_preparations import TwoPreparations

BATCHES, DRAFTS, STEPS = (1, 32, 256), (0, 1, 3), (1, GROUP)
PROMPT = 100
NEW_TOKENS = CONTEXT - PROMPT - 8
MICROSECONDS = 1e6


class Ours:
    """An engine in the middle of its work, with every place taken."""

    def __init__(self, device: SimulatedDevice, batch: int) -> None:
        self._device, self._batch = device, batch
        self._engine = Engine(ServingConfig(VOCABULARY, frozenset(), BLOCK_TOKENS), device)
        request = Request(prompt=[5] * PROMPT, max_new_tokens=NEW_TOKENS, stop_at_eos=False)
        self._engine.start([request] * batch)
        self._engine.step(1)
        self._engine.poll()

    def group(self, steps: int) -> tuple[float, float, float]:
        """Return the seconds per step of a group, of its tokens in columns, and as objects."""
        kernels, start = self._device.seconds, time.perf_counter()
        done = self._engine.step(steps)
        ran = time.perf_counter()
        updates = self._engine.poll()
        polled = time.perf_counter()
        made = list(updates)
        end = time.perf_counter()
        counts = self._device.counts("decode")
        assert done == steps, "the benchmark ran out of tokens"
        assert made
        assert updates.tokens.size >= len(made) == self._batch
        assert (counts.copies, counts.syncs) == (0, 0)
        seconds = ran - start - (self._device.seconds - kernels)
        return seconds / steps, (polled - ran) / steps, (end - polled) / steps

    @property
    def launches(self) -> int:
        """Launches of the last group."""
        return self._device.counts("decode").launches


class Theirs:
    """The scheme with two preparations, and the tokens its kernels would give."""

    def __init__(self, batch: int, drafts: int) -> None:
        self._shape = (batch, drafts)
        self._random = np.random.default_rng(0)
        self.scheme = TwoPreparations(batch, drafts, CONTEXT, BLOCK_TOKENS, PROMPT)

    def step(self) -> float:
        """Return the seconds of a step."""
        batch, drafts = self._shape
        sampled = self._random.integers(2, VOCABULARY, (batch, drafts + 1), np.int32)
        proposed = np.array([each.drafts for each in self.scheme.requests], np.int32)
        hits = self._random.random((batch, drafts)) < ACCEPTANCE
        sampled[:, :drafts] = np.where(hits, proposed.reshape(batch, drafts), sampled[:, :drafts])
        drafted = self._random.integers(2, VOCABULARY, (batch, drafts), np.int32)
        given = (torch.from_numpy(sampled), torch.from_numpy(drafted))
        start = time.perf_counter()
        outputs = self.scheme.step(*given)
        seconds = time.perf_counter() - start
        assert all(each.new_tokens for each in outputs)
        return seconds


@dataclass(frozen=True)
class Figure:
    """One setting, in microseconds per step; medians, if nothing else is said.

    Attributes:
        step: Of `Engine.step`.
        poll: Of `Engine.poll`.
        objects: Of looking at every `Update`.
        theirs: Of the other scheme.
        ours: Of step and poll.
        seen: Of step, poll and objects.
        mean: Of step and poll, the mean.
        ratio: Over pairs, of theirs by ours.
        ratio_seen: The same, where all objects are made.
    """

    step: float
    poll: float
    objects: float
    theirs: float
    ours: float
    seen: float
    mean: float
    ratio: float
    ratio_seen: float


def measure(ours: Ours, theirs: Theirs, steps: int, pairs: int) -> Figure:
    """Measure both in turn."""
    for _ in range(3):
        ours.group(steps)
        theirs.step()
    rows = np.array([(*ours.group(steps), theirs.step()) for _ in range(pairs)]) * MICROSECONDS
    step, poll, objects, other = rows.T
    of_ours, seen = step + poll, step + poll + objects
    columns = (step, poll, objects, other, of_ours, seen)
    return Figure(
        *map(_median, columns),
        mean=float(of_ours.mean()),
        ratio=_median(other / of_ours),
        ratio_seen=_median(other / seen),
    )


def _median(values: NDArray[np.float64]) -> float:
    return float(np.median(values))


def null_launch_nanoseconds(device: SimulatedDevice) -> tuple[int, float]:
    """Return launches per step, and the time of one in the runner when it launches nothing."""
    seconds = []
    for _ in range(101):
        start = time.perf_counter()
        device.launch_only(GROUP)
        seconds.append(time.perf_counter() - start)
    launches = device.counts("decode").launches
    return launches // GROUP, statistics.median(seconds) / launches * 1e9


def main() -> None:
    """Print a table and what the claims are about."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--pairs", type=int, default=63, help="measurements of both, default 63")
    pairs = parser.parse_args().pairs
    torch.set_num_threads(1)
    found: dict[tuple[int, int, int], Figure] = {}
    print("microseconds of the host per step; n steps per call; theirs is always one step")
    print(
        "batch drafts n |    step    poll   sum (mean) | + objects |  theirs | "
        "ratio (objects) | theirs copies, syncs"
    )
    for drafts in DRAFTS:
        main_plan = main_launches(drafts)
        for batch in BATCHES:
            device = SimulatedDevice(decode_plan(main_plan, batch, drafts))
            ours, theirs = Ours(device, batch), Theirs(batch, drafts)
            for steps in STEPS:
                figure = measure(ours, theirs, steps, pairs)
                found[batch, drafts, steps] = figure
                copies, syncs = theirs.scheme.per_step
                print(
                    f"{batch:5} {drafts:6} {steps} | {figure.step:7.1f} {figure.poll:7.1f} "
                    f"{figure.ours:5.1f} ({figure.mean:.1f}) | {figure.objects:9.1f} | "
                    f"{figure.theirs:7.1f} | {figure.ratio:5.1f} ({figure.ratio_seen:.1f})"
                    f"{'':3} | {copies:.0f}, {syncs:.0f}",
                    flush=True,
                )
        launches, nanoseconds = null_launch_nanoseconds(device)
        print(f"  {launches} launches per step, {nanoseconds:.1f} ns each in the runner")
    print("host-device copies and syncs of our runs, counted by the launcher: 0, 0")
    for drafts in DRAFTS:
        few, many = found[32, drafts, GROUP], found[256, drafts, GROUP]
        print(f"drafts {drafts}, n {GROUP}: columns; means; with all objects; step alone")
        print(
            f"  at batch 32, us per step     "
            f"{few.ours:.1f}; {few.mean:.1f}; {few.seen:.1f}; {few.step:.1f}"
        )
        print(
            f"  from batch 32 to 256, times  {many.ours / few.ours:.2f}; "
            f"{many.mean / few.mean:.2f}; {many.seen / few.seen:.2f}; {many.step / few.step:.2f}"
        )
        print(
            f"  theirs by ours at batch 32   {few.ratio:.1f}; with all objects {few.ratio_seen:.1f}"
        )


if __name__ == "__main__":
    main()
