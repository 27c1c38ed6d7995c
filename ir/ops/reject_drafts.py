"""Which draft tokens are kept so that the text is distributed as the main model's."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops.sample_tokens import SampleTokens, allowed_logits, choice_weights, draw
from ascendfx.ir.ops.verify_drafts import fits_places, places_of
from ascendfx.ir.step_state import State, Stream
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.uniform import uniform


@dataclass(frozen=True, slots=True)
class RejectDrafts(Op):
    """The number of drafts that speculative sampling accepts, and the token behind them.

    Place ``b`` has rows as in `VerifyDrafts`. With ``p`` the distribution of the token after row
    ``i`` as `SampleTokens` draws it, and ``q`` that of draft ``d`` at row ``i + 1``, the draft is
    accepted if ``u q(d) < p(d)``, ``u = uniform(seed, position, Stream.ACCEPT)``. The first that is
    not is replaced by a token drawn from ``max(p - q, 0)``; behind the last draft, the new token is
    drawn from ``p``: in the order of ids, with ``uniform(seed, position, Stream.SAMPLE)``.
    ``position`` is that of the token. So the tokens have the main model's distribution whatever
    ``q`` is (Leviathan, Kalman and Matias, arXiv 2211.17192, theorem 3.5 and appendix A.1; Chen et
    al., arXiv 2302.01318, theorem 1), and a draft is kept with probability ``sum(min(p, q))``.

    ``q`` is what `SampleDrafts` records. A draft that is not among its ids counts as certain,
    ``q(d) = 1`` and 0 elsewhere, which is lossless, too: so are drafts that were not drawn. Where
    ``p`` has no token (`SampleTokens` gives -1), nothing is accepted and the new token is -1.

    | operand, result | type |
    |---|---|
    | ``logits`` | float ``[requests * (drafts + 1), vocab]`` |
    | ``options``, ``state``, ``stop_ids`` | as in `SampleTokens` |
    | ``positions``, ``token_ids`` | i32 ``[requests * (drafts + 1)]`` |
    | ``draft_ids``, ``draft_probs`` | i32 and f32 ``[requests, drafts, kept]`` |
    | accepted, last rows, new tokens | i32 ``[requests]`` |

    Attributes:
        drafts: Draft tokens of a place, at least 1.
    """

    mnemonic: ClassVar[str] = "reject_drafts"

    drafts: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return three tables with an element for each place.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        logits, options, state, stops, positions, token_ids, ids, probabilities = operands
        SampleTokens().infer(logits, options, state, stops, positions, token_ids)
        places = places_of(state)
        if places is None or self.drafts < 1 or not fits_places(token_ids, places, self.drafts):
            raise OpTypeError(
                f"reject_drafts: rows {token_ids} do not fit {self.drafts} drafts of the places "
                f"{state}"
            )
        shape = (*places.shape, self.drafts, *ids.shape[2:])
        if ids != TensorType(DType.I32, shape) or probabilities != TensorType(DType.F32, shape):
            raise OpTypeError(
                f"reject_drafts: {ids} and {probabilities} are no tokens and probabilities of "
                f"{self.drafts} drafts of the places {state}"
            )
        if len(shape) != 3:
            raise OpTypeError(f"reject_drafts: {ids} must have three axes")
        return places, places, places

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Accept up to the first draft that is too likely."""
        accepted = np.zeros(len(operands[2]), np.int64)
        new_tokens = np.full(len(operands[2]), -1, np.int64)
        for place in range(len(accepted)):
            accepted[place], new_tokens[place] = self._verify(place, *operands)
        last_rows = np.arange(len(accepted)) * (self.drafts + 1) + accepted
        return accepted, last_rows, new_tokens

    def _verify(self, place: int, *operands: Array) -> tuple[int, int]:
        logits, options, state, stops, positions, token_ids, ids, probabilities = operands
        own = state[place]
        valid = min(int(own[State.DRAFTED]), self.drafts)
        first = place * (self.drafts + 1)
        for draft in range(valid + 1):
            row = first + draft
            allowed = allowed_logits(logits[row], own, stops[place], positions[row])
            if allowed is None:
                return draft, -1
            weights = choice_weights(allowed, options[place])
            p = weights / weights.sum()
            if draft == valid:
                return draft, draw(p, self._drawn(own, positions[row], Stream.SAMPLE))
            token = int(token_ids[row + 1])
            q = _recorded(token, ids[place, draft], probabilities[place, draft], p.size)
            if not self._drawn(own, positions[row], Stream.ACCEPT) * q[token] < p[token]:
                left = np.maximum(p - q, 0)
                # Nothing is left only where rounding made a draft less likely that is as likely.
                left = left if left.any() else p
                return draft, draw(left, self._drawn(own, positions[row], Stream.SAMPLE))
        raise AssertionError("the last row returns")

    @staticmethod
    def _drawn(state: Array, position: int, stream: Stream) -> float:
        low, high = state[State.SEED_LOW], state[State.SEED_HIGH]
        return float(uniform(low, high, np.asarray(position + 1), stream))


def _recorded(token: int, ids: Array, probabilities: Array, size: int) -> Array:
    """Return ``q`` over the vocabulary; certain where it does not know the token."""
    q = np.zeros(size)
    known = ids >= 0
    q[ids[known]] = probabilities[known]
    if q[token] > 0:
        return q
    q[:] = 0
    q[token] = 1
    return q
