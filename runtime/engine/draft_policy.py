"""How many drafts a request should have, from what was accepted so far."""

from dataclasses import dataclass
from typing import Protocol

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.line_of_user import line_of_user

Ints = NDArray[np.int32]


class DraftPolicy(Protocol):
    """Chooses between groups of steps; asked for all places at once."""

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
    r"""As many drafts as give the most tokens per unit of time.

    A draft is taken to be accepted with probability *a* if those before it were. With *d* drafts
    a step gives :math:`1 + a + \dots + a^d` tokens and takes the time :math:`1 + c d`, in units
    of a step without drafts. The largest quotient wins, fewer drafts among equals.

    *a* is estimated from the request's own history, with ``weight`` drafts of rate ``prior``
    added, so that a new request begins with the plan's drafts and a few failures do not decide.
    A request for which no draft pays (*a* < *c*, seen over many) gets none and stays so: it makes
    no history any more.

    Attributes:
        cost: Time of one draft and its row in the main layers, of a step without drafts.
        prior: Acceptance before anything was seen.
        weight: How many drafts the prior counts as.
    """

    cost: float = 0.1
    prior: float = 0.7
    weight: float = 16.0

    def __post_init__(self) -> None:
        inside = 0 < self.cost < np.inf and 0 <= self.prior <= 1 and 0 < self.weight < np.inf
        if not inside:
            raise GraphError(
                "bad-policy",
                f"cost {self.cost}, prior {self.prior}, weight {self.weight} are no policy",
                hint="cost and weight are positive, prior is a probability",
            )

    def __call__(self, proposed: Ints, accepted: Ints, most: int) -> Ints:
        """Return the best number of drafts for each place."""
        rate = (accepted + self.prior * self.weight) / (proposed + self.weight)
        drafts = np.arange(most + 1)
        tokens = np.cumsum(rate[:, None] ** drafts, axis=1)
        best = np.argmax(tokens / (1 + self.cost * drafts), axis=1)
        return best.astype(np.int32)


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
