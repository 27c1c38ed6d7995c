"""How many drafts are accepted: of each position, of each request, and whether they still pay."""

import warnings
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.step_state import State

Ints = NDArray[np.int32]

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
    """Drafts are hardly ever accepted: output stays right, but steps do work for nothing."""


@dataclass(frozen=True, slots=True)
class Acceptance:
    """Drafts of one request.

    Attributes:
        steps: Decode steps in which it ran.
        tokens: Tokens that it was given, that of its prefill included.
        proposed: Drafts that were verified.
        accepted: Those that were right.
    """

    steps: int = 0
    tokens: int = 0
    proposed: int = 0
    accepted: int = 0

    @classmethod
    def of_state(cls, state: Ints) -> "Acceptance":
        """Return the figures in a row of the tensor `state`."""
        columns = (State.STEPS, State.GENERATED, State.PROPOSED, State.ACCEPTED)
        return cls(*state[list(columns)].tolist())

    @property
    def rate(self) -> float:
        """Accepted of proposed drafts; NaN without any."""
        return self.accepted / self.proposed if self.proposed else float("nan")


@dataclass(frozen=True, slots=True)
class Metrics:
    """What an engine has done since it was made.

    Steps in which a request ends are left out of the figures by position: what is behind a stop
    token or a limit is not known to be right or wrong.

    Attributes:
        steps: Decode steps of the device.
        request_steps: Requests that ran, summed over these steps.
        tokens: Tokens from decode steps; each prefill gave one more.
        proposed: Drafts at each position that were verified; a draft behind a wrong one counts.
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
    """Sums that `Metrics` is made of; a group of steps is added at once."""

    def __init__(self, drafts: int) -> None:
        self.steps = 0
        self.request_steps = 0
        self.tokens = 0
        self.proposed = np.zeros(drafts, np.int64)
        self.accepted = np.zeros(drafts, np.int64)
        self.warnings: list[str] = []
        self._ended: dict[int, Acceptance] = {}
        self._window = np.zeros(2, np.int64)
        self._collapsed = False

    def add(
        self,
        counts: NDArray[np.intp],
        ran: Ints,
        ended: NDArray[np.bool_],
        drafted: Ints,
        wanted: Ints,
    ) -> str:
        """Add a group of steps; returns a warning that is due, or nothing.

        Args:
            counts: ``[steps, places]``, emitted tokens.
            ran: ``[places]``, steps in which the place ran.
            ended: ``[places]``, whether its last one of these ended its request.
            drafted: ``[places]``, drafts of its first step.
            wanted: ``[places]``, drafts of the others.
        """
        self.steps += len(counts)
        self.request_steps += int(ran.sum())
        self.tokens += int(counts.sum())
        drafts = self.proposed.size
        if not drafts:
            return ""
        whole = ran - ended
        first = np.minimum(whole, 1)
        asked = _histogram(drafted, first, drafts) + _histogram(wanted, whole - first, drafts)
        emitted = np.bincount(counts.ravel(), minlength=drafts + 2)
        last = np.flatnonzero(ended & (ran > 0))
        emitted -= np.bincount(counts[ran[last] - 1, last], minlength=drafts + 2)
        right = np.cumsum(emitted[:1:-1])[::-1]
        self.proposed += asked
        self.accepted += right
        return self._judge(asked[0], right[0])

    def _judge(self, proposed: int, accepted: int) -> str:
        self._window += (proposed, accepted)
        seen, right = self._window.tolist()
        if seen < WINDOW:
            return ""
        self._window[:] = 0
        was, self._collapsed = self._collapsed, right < COLLAPSE * seen
        if was or not self._collapsed:
            return ""
        message = (
            f"{right} of the last {seen} first drafts were accepted; working drafts have 7 of 10. "
            "The text is right, but drafts cost time: do the draft layer's weights belong to the "
            "model? `draft_tokens=0` turns drafts off"
        )
        self.warnings = [*self.warnings[-7:], message]
        return message

    def end(self, request: int, state: Ints) -> None:
        """Keep the figures of a request that has ended."""
        self._ended[request] = Acceptance.of_state(state)
        if len(self._ended) > KEPT:
            del self._ended[next(iter(self._ended))]

    def result(self, requests: Mapping[int, Acceptance]) -> Metrics:
        """Return the figures so far."""
        return Metrics(
            steps=self.steps,
            request_steps=self.request_steps,
            tokens=self.tokens,
            proposed=tuple(self.proposed.tolist()),
            accepted=tuple(self.accepted.tolist()),
            requests={r: each for r, each in requests.items() if r not in self._ended},
            ended=dict(self._ended),
            warnings=tuple(self.warnings),
        )


def _histogram(drafts: Ints, steps: Ints, most: int) -> NDArray[Any]:
    """Return for each position how many steps had a draft there."""
    counts = np.bincount(np.minimum(drafts, most), weights=steps, minlength=most + 1)
    return np.cumsum(counts[:0:-1])[::-1].astype(np.int64)


def warn(message: str) -> None:
    """Give a warning that points at the caller of the engine."""
    warnings.warn(message, AcceptanceWarning, stacklevel=4)
