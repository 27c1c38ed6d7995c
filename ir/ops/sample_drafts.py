"""A draft token for each row, and the probabilities it was drawn with."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops.sample_tokens import SampleTokens, allowed_logits, choice_weights, draw
from ascendfx.ir.step_state import State, Stream
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.uniform import uniform


@dataclass(frozen=True, slots=True)
class SampleDrafts(Op):
    """A draft for each row of logits, drawn from its most likely tokens, and their probabilities.

    Operands and filters are those of `SampleTokens`. What the filters leave is cut to its ``kept``
    most likely tokens and normalised: this is the distribution ``q`` of the draft, and it is
    recorded after every cut, so that `RejectDrafts` need not know how it came about. The draft is
    drawn from it in the order of ids, with ``u = uniform(seed, position + ahead, Stream.DRAFT)``.

    | result | type |
    |---|---|
    | drafts | i32 ``[n]``; -1 where `SampleTokens` gives -1 |
    | ids | i32 ``[n, kept]``, the most likely first; -1 behind the last |
    | probabilities | f32 ``[n, kept]``; 0 behind the last |

    Attributes:
        kept: Most tokens of ``q``.
        ahead: From the position of a row to that of the draft: 2 for the first draft layer, whose
            rows carry the token one position ahead, one more for each further layer.
    """

    mnemonic: ClassVar[str] = "sample_drafts"

    kept: int
    ahead: int = 2

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return drafts, ids and probabilities.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        if self.kept < 1:
            raise OpTypeError(f"sample_drafts: a draft is drawn from {self.kept} tokens")
        (tokens,) = SampleTokens().infer(*operands)
        shape = (*tokens.shape, self.kept)
        return tokens, TensorType(DType.I32, shape), TensorType(DType.F32, shape)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose for each row."""
        logits, options, state, stops, positions, row_request = operands
        of_row = state[row_request]
        index = positions + self.ahead
        low, high = of_row[:, State.SEED_LOW], of_row[:, State.SEED_HIGH]
        drawn = uniform(low, high, index, Stream.DRAFT)
        drafts = np.full(len(logits), -1, np.int64)
        ids = np.full((len(logits), self.kept), -1, np.int64)
        probabilities = np.zeros((len(logits), self.kept))
        for row, place in enumerate(row_request):
            allowed = allowed_logits(logits[row], state[place], stops[place], positions[row])
            if allowed is None:
                continue
            weights = choice_weights(allowed, options[place])
            best = np.argsort(-allowed, kind="stable")[: self.kept]
            best = best[weights[best] > 0]
            cut = np.zeros(weights.shape)
            cut[best] = weights[best] / weights[best].sum()
            drafts[row] = draw(cut, float(drawn[row]))
            ids[row, : best.size], probabilities[row, : best.size] = best, cut[best]
        return drafts, ids, probabilities
