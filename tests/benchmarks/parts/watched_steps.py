"""An executor that looks at the drafts of each step: how many are, and should be, taken."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import ROW_START, Capacities
from ascendfx.ir.step_state import Finish, Option, State, Verification
from ascendfx.runtime.executor.step import StepExecutor, StepInputs, StepOutputs

Array = NDArray[Any]
_READ = ("token_ids", "state", "options", "stop_ids", "draft_ids", "draft_probs")


@dataclass
class Taken:
    """Sums over steps of requests.

    A step with drafts ``d_1 .. d_n`` should take ``sum(a_i)`` of them, over those whose forerunners
    were taken, with ``a_i`` the probability of taking ``d_i`` then; of a block it is ``sum(P_i)``
    over all. The difference to what was taken has the mean 0, and differences of steps are not
    correlated, so that the sum of their squares estimates the variance of their sum.

    Attributes:
        steps: Of requests.
        drafts: Drafts verified.
        taken: Drafts taken.
        expected: How many should be.
        squares: Sum of squared differences.
        rejected: What rejection sampling would take of the same drafts, where blocks are verified.
        positions: Drafts that were drawn and whose forerunners were taken.
        likeliest: Sum of ``p`` of the most likely draft, there: what comparing takes.
        equal: Sum of ``p q``, there: the same with a draft that is drawn.
        overlap: Sum of ``min(p, q)``, there: what rejection sampling takes.
    """

    steps: int = 0
    drafts: int = 0
    taken: int = 0
    expected: float = 0.0
    squares: float = 0.0
    rejected: float = 0.0
    positions: int = 0
    likeliest: float = 0.0
    equal: float = 0.0
    overlap: float = 0.0

    def add(self, other: "Taken") -> None:
        for name, value in vars(other).items():
            setattr(self, name, getattr(self, name) + value)

    @property
    def error(self) -> float:
        """Standard error of ``taken - expected``."""
        return self.squares**0.5


class WatchedSteps:
    """Runs one step after another, and sums up by the seed of each request.

    Attributes:
        found: By seed.
    """

    def __init__(self, executor: StepExecutor) -> None:
        self._executor = executor
        self.found: dict[int, Taken] = {}

    def capacities(self, plan: str) -> Capacities:
        return self._executor.capacities(plan)

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        return self._executor.run(plan, inputs)

    def control(self, plan: str, name: str) -> Array:
        return self._executor.control(plan, name)

    def caches(self) -> Mapping[str, Array]:
        return self._executor.caches()

    def run_steps(self, plan: str, steps: int) -> None:
        for _ in range(steps):
            before = {name: self.control(plan, name).copy() for name in _READ}
            self._executor.run_steps(plan, 1)
            places = int(self.control(plan, "sizes")[1])
            running = before["state"][:places, State.FINISHED] == Finish.RUNS
            for place in np.flatnonzero(running).tolist():
                seed = int(before["state"][place, State.SEED_LOW])
                self.found.setdefault(seed, Taken()).add(self._look(plan, place, before))

    def _look(self, plan: str, place: int, before: Mapping[str, Array]) -> Taken:
        state, options = before["state"][place], before["options"][place]
        each = before["draft_ids"].shape[1] + 1
        start = int(self.control(plan, ROW_START)[place])
        taken = self._taken(plan, start, before["token_ids"][place * each + 1 :], state)
        after = self.control(plan, "state")[place]
        if after[State.FINISHED] == Finish.RUNS:  # the last step of a request is counted nowhere
            assert taken == after[State.ACCEPTED] - state[State.ACCEPTED]
        found = Taken(1, int(state[State.DRAFTED]), taken)
        prefix = rejected = 1.0
        for i in range(found.drafts):
            logits = self.control(plan, "logits")[start + i].astype(np.float64)
            if state[State.GENERATED] + i < state[State.MINIMUM]:
                stops = before["stop_ids"][place]
                logits[stops[stops >= 0]] = -np.inf
            draft = int(before["token_ids"][place * each + i + 1])
            q, drawn = draft_shares(before, place, i, draft, logits.size)
            p = shares(logits, float(options[Option.TEMPERATURE]))
            rejected *= min(1.0, float(p[draft] / q[draft]))
            if options[Option.VERIFICATION] == Verification.BLOCK:
                prefix = min(1.0, prefix * float(p[draft] / q[draft]))
                assert prefix >= rejected - 1e-9, "a block takes at least what rejection takes"
                found.expected += prefix
                found.rejected += rejected
            elif i <= taken:
                found.expected += chance(options, logits, p, q, draft)
            if drawn and i <= taken:
                found.positions += 1
                found.likeliest += float(p[np.argmax(q)])
                found.equal += float(p @ q)
                found.overlap += float(np.minimum(p, q).sum())
        found.squares = (taken - found.expected) ** 2
        return found

    def _taken(self, plan: str, start: int, drafts: Array, state: Array) -> int:
        """Return how many drafts the tokens chosen in their rows are equal to, one by one."""
        count = int(state[State.DRAFTED])
        chosen = self.control(plan, "next_tokens")[start : start + count]
        return int(np.minimum.accumulate(chosen == drafts[:count]).sum())


def shares(logits: Array, temperature: float) -> Array:
    """Return the distribution that tokens are chosen by; no cuts."""
    if temperature > 0:
        weights = np.exp((logits - logits.max()) / temperature)
        return weights / weights.sum()
    return (np.arange(logits.size) == np.argmax(logits)).astype(np.float64)


def draft_shares(
    before: Mapping[str, Array], place: int, depth: int, draft: int, vocabulary: int
) -> tuple[Array, bool]:
    """Return what a draft was drawn from, and whether it was drawn: those of prefills are not."""
    ids, kept = (before[name][place, depth] for name in ("draft_ids", "draft_probs"))
    known = (ids >= 0) & (kept > 0)
    q = np.zeros(vocabulary)
    if draft not in ids[known]:
        q[draft] = 1.0
        return q, False
    q[ids[known]] = kept[known]
    return q, True


def chance(options: Array, logits: Array, p: Array, q: Array, draft: int) -> float:
    """Return how likely a draft is taken whose forerunners were; not of a block."""
    kind = Verification(int(options[Option.VERIFICATION]))
    if kind is Verification.EXACT:
        return float(p[draft])
    if kind is Verification.REJECTION:
        return float(np.minimum(p, q).sum())
    m = shares(logits, float(options[Option.TEMPERATURE]) or 1.0)
    threshold = float(options[Option.THRESHOLD])
    if kind is Verification.TYPICAL:
        entropy = -float(np.sum(m[m > 0] * np.log(m[m > 0])))
        good = m[draft] > min(threshold, float(options[Option.SCALE]) * np.exp(-entropy))
    else:
        better = int((m > m[draft]).sum() + (m[:draft] == m[draft]).sum())
        good = better < options[Option.RANKS] and m[draft] >= m.max() - threshold
    return 1.0 if good else float(p[draft])
