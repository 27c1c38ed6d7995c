"""The most likely tokens behind each place: siblings in a draft tree."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops.verify_tree import MOST_NODES
from ascendfx.ir.places import places_of
from ascendfx.ir.step_state import STOP_COLUMNS, State
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.token_choice import allowed_logits


@dataclass(frozen=True, slots=True)
class BranchDrafts(Op):
    """Several drafts for each place, for one depth of a tree.

    | operand | type |
    |---|---|
    | ``logits`` | float ``[requests, vocab]``, of the draft layer behind its last row |
    | ``state``, ``stop_ids`` | as in `SampleTokens` |
    | ``accepted`` | i32 ``[requests]``, of `VerifyTree` |
    | results | ``branches`` times i32 ``[requests]``: the most likely token, the second, .. |

    Their position is ``LENGTH + accepted + 2 + depth``. Among equal logits the lower id comes
    first. As in `SampleDrafts`, stop tokens are not drafted where the request cannot end yet, and
    penalties are left to the main model. Where there are fewer tokens to choose from, the most
    likely one stands in their place: the second of two equal siblings is never on a path. Where no
    token can be chosen, all are 0.

    Nothing is kept of probabilities: a tree is verified by the tokens of the main model alone.

    Attributes:
        depth: Which draft layer: 0 for the first.
        branches: Tokens of each place.
    """

    mnemonic: ClassVar[str] = "branch_drafts"

    depth: int
    branches: int

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return a token of each place, ``branches`` times.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        logits, state, stops, accepted = operands
        places = places_of(state)
        if logits.rank != 2 or not logits.dtype.is_float:
            raise OpTypeError(f"branch_drafts: logits [requests, vocab] are needed, got {logits}")
        if (
            places is None
            or logits.shape[:1] != places.shape
            or accepted != places
            or stops != TensorType(DType.I32, (*places.shape, STOP_COLUMNS))
        ):
            raise OpTypeError(f"branch_drafts: {logits}, {stops} and {accepted} are not of {state}")
        if self.depth < 0 or not 1 <= self.branches < MOST_NODES:
            raise OpTypeError(f"branch_drafts: no {self.branches} drafts at depth {self.depth}")
        return (places,) * self.branches

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose for each place."""
        logits, state, stops, accepted = operands
        last = state[:, State.LENGTH] + accepted + 1 + self.depth
        drafts = np.zeros((self.branches, len(logits)), np.int64)
        for place, row in enumerate(logits):
            allowed = allowed_logits(row, state[place], stops[place], last[place])
            if allowed is None:
                continue
            best = np.argsort(-allowed, kind="stable")[: self.branches]
            best = best[allowed[best] > -np.inf]
            drafts[:, place] = best[0]
            drafts[: best.size, place] = best
        return tuple(drafts)
