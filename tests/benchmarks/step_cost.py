"""Time of the host per decode step: everything that is not a kernel.

    python tests/benchmarks/step_cost.py [--pairs N]

Ours: `Engine.step(n)` over a decode plan of DeepSeek-V3's size whose launches return at once, and
`Engine.poll`, which hands the tokens out in columns; beside it the time of a caller in Python who
looks at the `Update` of every request. A stand-in leaves in the control tensors what the kernels
would; its time is taken off. In the same run the scheme that prepares every step on the host, twice
where there are drafts: see two_preparations.py. It is not charged for launching kernels, and hands
tokens out as Python lists.

Groups follow each other, blocks of ours and of theirs by turns: caches hold what the host uses.
"Cold" is step and poll with the caches of the core emptied before the step and while the device
runs, for every batch alike. Work that is done now and then, such as giving out blocks, is hidden by
a median, so means are printed, too; groups in which another process took the core are left out of
them. All figures are of this machine; nothing was measured on a card.
"""

import argparse
import math
import resource
import time
from dataclasses import dataclass
from statistics import mean, median
from typing import NamedTuple

import numpy as np
import torch

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
BLOCK = 21
"""Measurements of ours, and of theirs, in a row."""


class Sample(NamedTuple):
    """Microseconds per step.

    Attributes:
        step: Of `Engine.step`.
        poll: Of `Engine.poll`.
        objects: Of looking at every `Update`.
        alone: Whether no other process took the core meanwhile.
    """

    step: float
    poll: float
    objects: float
    alone: bool

    @property
    def sum(self) -> float:
        """Of everything."""
        return self.step + self.poll + self.objects


def _times_taken_away() -> int:
    return resource.getrusage(resource.RUSAGE_THREAD).ru_nivcsw


class Ours:
    """An engine in the middle of its work, with every place taken."""

    def __init__(self, device: SimulatedDevice, batch: int) -> None:
        self._device, self._batch = device, batch
        self._engine = Engine(ServingConfig(VOCABULARY, frozenset(), BLOCK_TOKENS), device)
        request = Request(prompt=[5] * PROMPT, max_new_tokens=NEW_TOKENS, stop_at_eos=False)
        self._engine.start([request] * batch)
        self._engine.step(1)
        self._engine.poll()

    def groups(self, steps: int, count: int, *, look: bool, cold: bool) -> list[Sample]:
        """Return the figures of so many groups; one before them is not counted.

        Args:
            steps: Of a group.
            count: Of groups.
            look: At all updates.
            cold: Empty the caches.
        """
        self._device.prepare(count + 1, steps)
        self._device.cold = cold
        return [self._group(steps, look=look) for _ in range(count + 1)][1:]

    def _group(self, steps: int, *, look: bool) -> Sample:
        if self._device.cold:
            self._device.empty_caches()
        taken_away, kernels = _times_taken_away(), self._device.seconds
        start = time.perf_counter()
        done = self._engine.step(steps)
        ran = time.perf_counter()
        updates = self._engine.poll()
        polled = time.perf_counter()
        made = list(updates) if look else ()
        end = time.perf_counter()
        counts = self._device.counts("decode")
        assert done == steps, "the benchmark ran out of tokens"
        assert updates.tokens.size >= len(updates) == self._batch
        assert len(made) == self._batch * look
        assert (counts.copies, counts.syncs) == (0, 0)
        return Sample(
            (ran - start - (self._device.seconds - kernels)) / steps * MICROSECONDS,
            (polled - ran) / steps * MICROSECONDS,
            (end - polled) / steps * MICROSECONDS,
            _times_taken_away() == taken_away,
        )


class Theirs:
    """The scheme with two preparations, and the tokens its kernels would give."""

    def __init__(self, batch: int, drafts: int) -> None:
        self._shape = (batch, drafts)
        self._random = np.random.default_rng(0)
        self.scheme = TwoPreparations(batch, drafts, CONTEXT, BLOCK_TOKENS, PROMPT)

    def steps(self, count: int) -> list[float]:
        """Return the microseconds of so many steps; one before them is not counted."""
        return [self._step() for _ in range(count + 1)][1:]

    def _step(self) -> float:
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
        return seconds * MICROSECONDS


@dataclass(frozen=True)
class Figure:
    """One setting, in microseconds per step; medians, if nothing else is said.

    Attributes:
        step: Of `Engine.step`.
        poll: Of `Engine.poll`.
        ours: Of both.
        mean: Of both, the mean.
        cold: Of both, when nothing is in the caches of the core.
        seen: Of both, and of looking at every update.
        theirs: Of the other scheme.
        ratio: Over pairs, of theirs by ours.
        ratio_seen: The same, where all updates are looked at.
    """

    step: float
    poll: float
    ours: float
    mean: float
    cold: float
    seen: float
    theirs: float
    ratio: float
    ratio_seen: float


def measure(ours: Ours, theirs: Theirs, steps: int, pairs: int) -> Figure:
    """Measure both by turns."""
    warm, cold, seen = list[Sample](), list[Sample](), list[Sample]()
    other: list[float] = []
    while len(other) < pairs:
        count = min(BLOCK, pairs - len(other))
        warm += ours.groups(steps, count, look=False, cold=False)
        other += theirs.steps(count)
        cold += ours.groups(steps, count, look=False, cold=True)
        seen += ours.groups(steps, count, look=True, cold=False)
    return Figure(
        step=median(each.step for each in warm),
        poll=median(each.poll for each in warm),
        ours=median(each.sum for each in warm),
        mean=mean([each.sum for each in warm if each.alone] or [math.nan]),
        cold=median(each.sum for each in cold),
        seen=median(each.sum for each in seen),
        theirs=median(other),
        ratio=median(b / a.sum for a, b in zip(warm, other, strict=True)),
        ratio_seen=median(b / a.sum for a, b in zip(seen, other, strict=True)),
    )


def null_launch_nanoseconds(device: SimulatedDevice) -> tuple[int, float]:
    """Return launches per step, and the time of one in the runner when it launches nothing."""
    seconds = []
    for _ in range(101):
        start = time.perf_counter()
        device.launch_only(GROUP)
        seconds.append(time.perf_counter() - start)
    launches = device.counts("decode").launches
    return launches // GROUP, median(seconds) / launches * 1e9


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
        "batch drafts n |    step    poll     sum    mean    cold  objects |  theirs | "
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
                    f"{figure.ours:7.1f} {figure.mean:7.1f} {figure.cold:7.1f} "
                    f"{figure.seen:8.1f} | {figure.theirs:7.1f} | "
                    f"{figure.ratio:5.1f} {f'({figure.ratio_seen:.1f})':9} | "
                    f"{copies:.0f}, {syncs:.0f}",
                    flush=True,
                )
        launches, nanoseconds = null_launch_nanoseconds(device)
        print(f"  {launches} launches per step, {nanoseconds:.1f} ns each in the runner")
    print("host-device copies and syncs of our runs, counted by the launcher: 0, 0")
    for drafts in DRAFTS:
        few, many = found[32, drafts, GROUP], found[256, drafts, GROUP]
        print(
            f"drafts {drafts}, n {GROUP}; theirs by ours at batch 32: {few.ratio:.1f}, "
            f"with all objects {few.ratio_seen:.1f}"
        )
        print("  step and poll, us per step: at batch 32, at batch 256, times")
        for name, one, other in (
            ("median", few.ours, many.ours),
            ("mean", few.mean, many.mean),
            ("cold", few.cold, many.cold),
            ("with all objects", few.seen, many.seen),
        ):
            print(f"    {name:16} {one:6.1f} {other:6.1f} {other / one:5.2f}")


if __name__ == "__main__":
    main()
