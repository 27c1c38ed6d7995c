"""A draft token of each place, and the probabilities that it was drawn with."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops.sample_tokens import check_choice, check_kept
from ascendfx.ir.step_state import Option, State, Stream, Verification
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.token_choice import allowed_logits, choice_weights, draw
from ascendfx.ir.uniform import uniform

DRAWN = (Verification.REJECTION, Verification.BLOCK)
"""What needs drafts that are drawn; for the others the most likely one is accepted most often."""


@dataclass(frozen=True, slots=True)
class SampleDrafts(Op):
    """A draft for each place, drawn from its most likely tokens, which are kept.

    | operand | type | result |
    |---|---|---|
    | ``logits`` | float ``[requests, vocab]``, of the draft layer behind its last row | |
    | ``options``, ``state``, ``stop_ids`` | as in `SampleTokens` | |
    | ``accepted`` | i32 ``[requests]``, of `VerifyDrafts` | |
    | ``draft_ids`` | i32 ``[requests, drafts, kept]`` | 1, in place |
    | ``draft_probs`` | f32 ``[requests, drafts, kept]`` | 2, in place |
    | drafts | i32 ``[requests]`` | 0 |

    The draft's position is ``LENGTH + accepted + 2 + depth``. A request whose ``VERIFICATION`` is
    one of `DRAWN` gets it drawn: what the filters of `SampleTokens` leave is cut to its ``kept``
    most likely tokens and normalised, which is the distribution ``q`` of the draft; it is drawn in
    the order of ids with ``u = uniform(seed, position, Stream.DRAFT, LENGTH)``. Other requests get
    the most likely token. Tokens and probabilities of ``q``, most likely first, become
    ``draft_ids[:, depth]`` and ``draft_probs[:, depth]``, with -1 and 0 behind the last. Stop
    tokens are not drafted where the request cannot end yet. Penalties are left to the main model:
    whatever ``q`` is, the text is the main model's.

    Where no token can be chosen (see `SampleTokens`), the draft is 0 and nothing is kept.

    Attributes:
        depth: Which draft of the place: 0 for the first.
    """

    mnemonic: ClassVar[str] = "sample_drafts"
    in_place: ClassVar[Mapping[int, int]] = {1: 5, 2: 6}

    depth: int = 0

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return drafts, ids and probabilities.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        logits, options, state, stops, accepted, ids, probabilities = operands
        check_choice("sample_drafts", logits, options, state, stops)
        places = TensorType(DType.I32, state.shape[:1])
        if logits.shape[:1] != places.shape or accepted != places:
            raise OpTypeError(f"sample_drafts: {logits} and {accepted} are not of {state}")
        check_kept("sample_drafts", ids, probabilities, (*places.shape, *ids.shape[1:2]))
        depths = ids.shape[1]
        if self.depth < 0 or (isinstance(depths, int) and self.depth >= depths):
            raise OpTypeError(f"sample_drafts: {ids} has no draft {self.depth}")
        return places, ids, probabilities

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose for each place."""
        logits, options, state, stops, accepted, ids, probabilities = operands
        length = state[:, State.LENGTH]
        positions = length + accepted + 2 + self.depth
        seed = state[:, State.SEED_LOW], state[:, State.SEED_HIGH]
        drawn = uniform(*seed, positions, Stream.DRAFT, length)
        ids, probabilities = ids.copy(), probabilities.copy()
        ids[:, self.depth], probabilities[:, self.depth] = -1, 0
        drafts = np.zeros(len(logits), np.int64)
        for place in range(len(logits)):
            allowed = allowed_logits(
                logits[place], state[place], stops[place], positions[place] - 1
            )
            if allowed is None:
                continue
            tokens, q = _kept(allowed, options[place], ids.shape[2])
            at = np.zeros(allowed.size)
            at[tokens] = q
            drafts[place] = draw(at, float(drawn[place]))
            ids[place, self.depth, : tokens.size] = tokens
            probabilities[place, self.depth, : tokens.size] = q
        return drafts, ids, probabilities


def _kept(logits: Array, options: Array, most: int) -> tuple[Array, Array]:
    """Return tokens of ``q``, most likely first, and their probabilities."""
    best = np.argsort(-logits, kind="stable")[:most]
    if options[Option.VERIFICATION] not in DRAWN:
        return best[:1], np.ones(1)
    weights = choice_weights(logits, options)
    best = best[weights[best] > 0]
    return best, weights[best] / weights[best].sum()
