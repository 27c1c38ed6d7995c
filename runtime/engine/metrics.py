"""How many drafts are accepted: of each position, of each request, and whether they still pay."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.step_state import State

Ints = NDArray[np.int32]
Sums = NDArray[np.int64]

KEPT = 1_000
"""Requests whose figures are kept when they end: the newest."""
WINDOW = 512
"""First drafts that are judged together: the standard error of their rate is at most 0.022."""
COLLAPSE = 0.2
"""Rate of accepted first drafts below which something is broken.

Published rates of the first draft lie between 0.7 and 0.9 (DeepSeek-V3 technical report, section
5.4.3: 85 to 90 %), 22 standard errors of a window above. A draft layer that reads another
request's blocks, wrong positions or another model's weights is right about as often as a guess.
"""


class AcceptanceWarning(UserWarning):
    """Drafts are hardly ever accepted: steps do work for nothing."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Drafts of one request.

    As in the figures by position of `Metrics`, drafts of a step that ends the request are left out.

    Attributes:
        steps: Decode steps in which it ran, the last one included.
        tokens: Tokens that it was given, that of its prefill included.
        proposed: Drafts that were verified.
        accepted: Those that were right.
        drafts: Drafts in a row that its next step shall have.
    """

    steps: int = 0
    tokens: int = 0
    proposed: int = 0
    accepted: int = 0
    drafts: int = 0

    @classmethod
    def of_state(cls, state: Ints, tree: DraftTree) -> "Acceptance":
        """Return the figures in a row of the tensor `state`."""
        return cls(
            steps=int(state[State.STEPS]),
            tokens=int(state[State.GENERATED]),
            proposed=int(state[State.PROPOSED]),
            accepted=int(state[State.ACCEPTED]),
            drafts=tree.depths[state[State.DRAFTS]],
        )

    @property
    def rate(self) -> float:
        """Accepted of proposed drafts; NaN without any."""
        return self.accepted / self.proposed if self.proposed else float("nan")


@dataclass(frozen=True, slots=True)
class Metrics:
    """What an engine has done since it was made.

    Drafts of steps in which a request ends are counted nowhere: what is behind a stop token or a
    limit is not known to be right or wrong. So the figures of all requests have the sums of those
    by position; only what a request did before it began anew from a `TransferRecord` is in the
    latter alone.

    Attributes:
        steps: Decode steps of the device.
        request_steps: Requests that ran, summed over these steps.
        tokens: Tokens from decode steps; each prefill gave one more.
        proposed: Drafts at each position that were verified; a draft behind a wrong one counts.
            Candidates of a draft tree for one position count once.
        accepted: Drafts at each position that were accepted.
        requests: Figures of each request that has a place now.
        ended: Figures of each request that had a place and has ended, at most the last `KEPT`.
        warnings: Messages of the `AcceptanceWarning` given so far, at most the last eight.
    """

    steps: int
    request_steps: int
    tokens: int
    proposed: tuple[int, ...]
    accepted: tuple[int, ...]
    requests: Mapping[int, Acceptance]
    ended: Mapping[int, Acceptance]
    warnings: tuple[str, ...]

    @property
    def tokens_per_step(self) -> float:
        """Tokens that a request gets of a step, on average; NaN before the first."""
        return self.tokens / self.request_steps if self.request_steps else float("nan")

    @property
    def acceptance(self) -> tuple[float, ...]:
        """Accepted of proposed drafts, for each position; NaN where none was proposed."""
        return tuple(
            a / p if p else float("nan") for a, p in zip(self.accepted, self.proposed, strict=True)
        )


class Tally:
    """What `Metrics` is made of.

    The passes over the places add to the sums, one element each for: steps of requests; tokens;
    steps with 0, 1, ... drafts; steps that emitted 0, 1, ... tokens. Steps in which a request ends
    are left out of the last two.

    Attributes:
        steps: Decode steps of the device.
        warnings: The last messages.
    """

    def __init__(self, sums: Sums, tree: DraftTree | None = None) -> None:
        self.steps = 0
        self.warnings: list[str] = []
        self._sums, self._drafts = sums, _drafts_of(sums)
        self._tree = tree or DraftTree((1,) * self._drafts)
        self._judged = (0, 0)
        self._ended: dict[int, Acceptance] = {}
        self._collapsed = False

    def judge(self) -> str:
        """Return a warning if the drafts since the last look deserve one and are enough to say so.

        Called after every group of steps.
        """
        if not self._drafts:
            return ""
        asked, emitted = _parts(self._sums)
        proposed, accepted = self._judged
        seen, right = sum(asked[1:]) - proposed, sum(emitted[2:]) - accepted
        if seen < WINDOW:
            return ""
        self._judged = (proposed + seen, accepted + right)
        was, self._collapsed = self._collapsed, right < COLLAPSE * seen
        if was or not self._collapsed:
            return ""
        message = (
            f"{right} of the last {seen} first drafts were accepted; working drafts have 7 of 10. "
            "The text keeps what its verification promises, but drafts cost time: do the draft "
            "layer's weights belong to the model? `draft_tokens=0` turns drafts off"
        )
        self.warnings = [*self.warnings[-7:], message]
        return message

    def end(self, request: int, state: Ints) -> None:
        """Keep the figures of a request that has ended."""
        self._ended[request] = Acceptance.of_state(state, self._tree)
        if len(self._ended) > KEPT:
            del self._ended[next(iter(self._ended))]

    def result(self, requests: Mapping[int, Acceptance]) -> Metrics:
        """Return the figures so far."""
        asked, emitted = _parts(self._sums)
        return Metrics(
            steps=self.steps,
            request_steps=int(self._sums[0]),
            tokens=int(self._sums[1]),
            proposed=tuple(sum(asked[end + 1 :]) for end in self._tree.ends[:-1]),
            accepted=tuple(sum(emitted[i + 2 :]) for i in range(self._tree.depth)),
            requests={r: each for r, each in requests.items() if r not in self._ended},
            ended=dict(self._ended),
            warnings=tuple(self.warnings),
        )


def no_sums(drafts: int) -> Sums:
    """Return the sums of a `Tally` before the first step."""
    return np.zeros(2 + (drafts + 1) + (drafts + 2), np.int64)


def add_group(
    sums: Sums,
    counts: NDArray[np.intp],
    asked: NDArray[np.intp],
    ran: Ints,
    ended: NDArray[np.bool_],
) -> None:
    """Add a group of steps.

    Args:
        sums: Of a `Tally`.
        counts: ``[steps, places]``, emitted tokens.
        asked: ``[steps, places]``, drafts.
        ran: ``[places]``, steps in which the place ran.
        ended: ``[places]``, whether its last one of these ended its request.
    """
    sums[:2] += (ran.sum(), counts.sum())
    inside = np.arange(len(counts))[:, None] < ran - ended
    np.add.at(sums, 2 + asked[inside], 1)
    np.add.at(sums, 2 + (_drafts_of(sums) + 1) + counts[inside], 1)


def _drafts_of(sums: Sums) -> int:
    return (sums.size - no_sums(0).size) // 2


def _parts(sums: Sums) -> tuple[list[int], list[int]]:
    """Return steps by their drafts, and by their tokens."""
    emitted = 2 + (_drafts_of(sums) + 1)
    return sums[2:emitted].tolist(), sums[emitted:].tolist()


def warn(message: str) -> None:
    """Give a warning that points at the caller of the engine."""
    warnings.warn(message, AcceptanceWarning, stacklevel=4)
