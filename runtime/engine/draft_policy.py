"""How many drafts a request should have, from what was accepted so far."""

from bisect import bisect_left
from dataclasses import dataclass
from fractions import Fraction
from itertools import accumulate
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import HELD, RATE_ONE, STEP_COLUMNS
from ascendfx.passes.line_of_user import line_of_user

Ints = NDArray[np.int32]


class DraftPolicy(Protocol):
    """Chooses on the host between groups of steps; asked for all places at once."""

    def __call__(self, proposed: Ints, accepted: Ints, most: int) -> Ints:
        """Return the drafts of each place, from 0 to ``most``.

        Args:
            proposed: ``[places]``, drafts verified so far, of the request at each place.
            accepted: Those accepted.
            most: Drafts of the plan.
        """
        ...


@dataclass(frozen=True, slots=True)
class ExpectedGain:
    r"""As many drafts as give the most tokens per unit of time; every step chooses on the device.

    A draft is taken to be accepted with probability *a* if those before it were. With *d* drafts
    a step gives :math:`1 + a + \dots + a^d` tokens and takes the time :math:`1 + c d`, in units
    of a step without drafts. The largest quotient wins, fewer drafts among equals.

    *a* is the request's own rate, an average over the drafts that were tried in which older ones
    fade (`ascendfx.ir.step_state.State.RATE`). It begins with ``prior``. A request for which no
    draft pays (*a* at most *c*) tries one every 16 steps and so hears when drafts get better.

    Attributes:
        cost: Time of one draft and its row in the main layers, of a step without drafts.
        prior: Acceptance before anything was seen.
    """

    cost: float = 0.1
    prior: float = 0.7

    def __post_init__(self) -> None:
        if not (0 < self.cost < np.inf and 0 <= self.prior <= 1):
            raise GraphError(
                "bad-policy",
                f"cost {self.cost}, prior {self.prior} are no policy",
                hint="cost is positive, prior is a probability",
            )

    def best(self, rate: int, most: int) -> int:
        """Return the best number of drafts, exactly.

        Args:
            rate: *a* in units of 1 / `RATE_ONE`.
            most: Drafts of the plan.
        """
        cost, a = Fraction(self.cost), Fraction(rate, RATE_ONE)
        tokens = list(accumulate(a**d for d in range(most + 1)))
        return max(range(most + 1), key=lambda d: (tokens[d] / (1 + cost * d), -d))

    def thresholds(self, most: int) -> list[int]:
        r"""Return the least rate at which at least 1, 2, .. ``most`` drafts are best.

        The best number grows with *a*: for :math:`d < e` the tokens of *e* drafts by those of *d*
        are :math:`1 + \sum_{j=d+1}^{e} 1 / (a^{-j} + \dots + a^{d-j})`, in which every term grows.
        """
        rates = range(RATE_ONE + 1)
        return [
            bisect_left(rates, d, key=lambda rate: self.best(rate, most))
            for d in range(1, most + 1)
        ]


def step_row(policy: "DraftPolicy | ExpectedGain | None", most: int) -> Ints:
    """Return what stands in the tensor ``step`` when a group begins: which rates pay.

    Without a policy all do, so that requests have all drafts; with one on the host none counts.

    Args:
        policy: Of an engine.
        most: Drafts in a row of a step.
    """
    row = np.zeros(STEP_COLUMNS, np.int32)
    if isinstance(policy, ExpectedGain):
        row[1 : most + 1] = policy.thresholds(most)
    elif policy is not None:
        row[1] = HELD
    return row


def first_rate(policy: "DraftPolicy | ExpectedGain | None") -> int:
    """Return the RATE with which a request begins."""
    known = policy if isinstance(policy, ExpectedGain) else ExpectedGain()
    return round(known.prior * RATE_ONE)


def chosen_drafts(policy: DraftPolicy, proposed: Ints, accepted: Ints, most: int) -> Ints:
    """Return what a policy chooses.

    Raises:
        GraphError: It fails, or gives anything but a number from 0 to ``most`` for each place.
    """
    try:
        chosen = np.asarray(policy(proposed, accepted, most))
    except Exception as error:
        raise GraphError(
            "bad-policy",
            f"draft_policy failed: {type(error).__name__}: {error}{line_of_user(error)}",
            hint="it is called with proposed and accepted drafts, i32 [places], and the most "
            "drafts of a step; pass an object such as `ExpectedGain()`, not its class",
        ) from error
    whole = chosen.shape == proposed.shape and np.issubdtype(chosen.dtype, np.integer)
    if not whole or (chosen < 0).any() or (chosen > most).any():
        raise GraphError(
            "bad-policy",
            f"draft_policy gave {np.array2string(chosen, threshold=8)} for {proposed.size} places",
            hint=f"it returns integers from 0 to {most}, one for each place",
        )
    return chosen.astype(np.int32)
