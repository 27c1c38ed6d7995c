"""The token behind each row, chosen as its request wants it."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.draft_acceptance import Rows, coupled_tokens
from ascendfx.ir.op import Array, Op
from ascendfx.ir.places import fits_places, places_of
from ascendfx.ir.step_state import OPTION_COLUMNS, STOP_COLUMNS, State, Stream
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.token_choice import allowed_logits, penalised, wants_penalties
from ascendfx.ir.uniform import uniform


@dataclass(frozen=True, slots=True)
class SampleTokens(Op):
    """A token for each row of logits: the most likely one, or one drawn from what filters leave.

    | operand | type | |
    |---|---|---|
    | ``logits`` | float ``[n, vocab]`` | |
    | ``options`` | f32 ``[requests, 16]`` | see `ascendfx.ir.step_state.Option` |
    | ``state`` | i32 ``[requests, 16]`` | see `ascendfx.ir.step_state.State` |
    | ``stop_ids`` | i32 ``[requests, 8]`` | negative: unused |
    | ``positions``, ``row_request`` | i32 ``[n]`` | |
    | ``counts`` | i32 ``[places, vocab]`` | |
    | ``token_ids`` | i32 ``[n]`` | with ``drafts`` |
    | ``draft_ids``, ``draft_probs`` | i32, f32 ``[requests, drafts, kept]`` | with ``drafts`` |

    With temperature 0 the token is that of the largest logit, the lowest id among equals.
    Otherwise ``p = softmax(logits / temperature)`` is ordered by probability descending, id
    ascending among equals, and cut to a prefix of that order three times: to ``TOP_K`` tokens; to
    the shortest prefix whose share of what is left is at least ``TOP_P``; to those of at least
    ``MIN_P`` times the largest probability. The token is drawn from the rest by its cumulative
    distribution in the order of ids: the first at which it exceeds ``u`` times its total, with
    ``u = uniform(seed, position + 1, Stream.SAMPLE)``.

    Stop tokens are not taken while ``GENERATED + position - LENGTH < MINIMUM``. The token is -1
    for a row that holds NaN or +inf, or whose logits are all -inf or all 0.

    Requests with penalties have their logits changed first, see
    `ascendfx.ir.token_choice.penalised`. ``counts`` at row ``PLACE`` holds, for each token, twice
    how often the request emitted it, plus 1 if its prompt has it; the drafts in the rows before a
    row count as emitted there, and nowhere else, so that nothing has to be taken back when drafts
    are rejected.

    With ``drafts``, the rows of a place stand together, up to ``drafts + 1`` that have its number
    in ``row_request``, and no other place next to it has the same. The token behind a row is
    coupled with the draft that stands there as the request's ``VERIFICATION`` says: see
    `ascendfx.ir.draft_acceptance`. ``draft_ids`` and ``draft_probs`` are what `SampleDrafts` keeps;
    ``u`` of acceptance is ``uniform(seed, position of the draft, Stream.ACCEPT, LENGTH)``.

    Attributes:
        drafts: Draft tokens of a place that choices are coupled with.
    """

    mnemonic: ClassVar[str] = "sample_tokens"

    drafts: int = 0

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return i32 ``[n]``.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        wanted = 10 if self.drafts else 7
        if len(operands) != wanted or self.drafts < 0:
            raise OpTypeError(f"sample_tokens: {len(operands)} operands, {wanted} are wanted")
        logits, options, state, stops, positions, row_request, counts, *more = operands
        rows = check_choice("sample_tokens", logits, options, state, stops)
        if positions != rows or row_request != rows:
            raise OpTypeError(f"sample_tokens: {positions} and {row_request} must be {rows}")
        if counts.dtype is not DType.I32 or counts.rank != 2 or counts.shape[1] != logits.shape[1]:
            raise OpTypeError(f"sample_tokens: {counts} does not count the tokens of {logits}")
        if self.drafts:
            token_ids, ids, probabilities = more
            places = TensorType(DType.I32, state.shape[:1])
            if token_ids != rows or not fits_places(rows, places, self.drafts):
                raise OpTypeError(
                    f"sample_tokens: rows {token_ids} do not fit {self.drafts} drafts of {state}"
                )
            check_kept("sample_tokens", ids, probabilities, (*places.shape, self.drafts))
        return (rows,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose for each row."""
        _, _, state, _, positions, row_request, *_ = operands
        of_row = state[row_request]
        seed = of_row[:, State.SEED_LOW], of_row[:, State.SEED_HIGH]
        sampled = uniform(*seed, positions + 1, Stream.SAMPLE)
        accepted = uniform(*seed, positions, Stream.ACCEPT, of_row[:, State.LENGTH])
        tokens = np.full(len(positions), -1, np.int64)
        first = 0
        while first < len(tokens):
            rows = row_request[first : first + self.drafts + 1]
            others = np.flatnonzero(rows != rows[0])
            at = slice(first, first + int(others[0] if others.size else rows.size))
            tokens[at] = coupled_tokens(self._rows(at, sampled[at], accepted[at], operands))
            first = at.stop
        return (tokens,)

    def _rows(
        self, at: slice, sampled: Array, accepted: Array, operands: tuple[Array, ...]
    ) -> Rows:
        """Return what stands in the rows of a place, or in one row without drafts."""
        _, options, state, _, _, row_request, _, *more = operands
        first, place = at.start, row_request[at.start]
        drafts = np.zeros(0, np.int64)
        ids, probabilities = np.zeros((0, 0), np.int64), np.zeros((0, 0))
        if self.drafts:
            token_ids, all_ids, all_probabilities = more
            drafts = token_ids[first + 1 : at.stop]
            ids, probabilities = all_ids[place], all_probabilities[place]
        return Rows(
            list(self._logits(at, drafts, operands)),
            options[place],
            drafts,
            min(int(state[place, State.DRAFTED]), len(drafts)),
            ids,
            probabilities,
            sampled,
            accepted,
        )

    def _logits(
        self, at: slice, drafts: Array, operands: tuple[Array, ...]
    ) -> Iterator[Array | None]:
        logits, options, state, stops, positions, row_request, counts, *_ = operands
        place = row_request[at.start]
        own, wanted = state[place], options[place]
        for row in range(at.start, at.stop):
            allowed = allowed_logits(logits[row], own, stops[place], positions[row])
            if allowed is None or not wants_penalties(wanted):
                yield allowed
                continue
            seen = counts[own[State.PLACE]].copy()
            np.add.at(seen, drafts[: row - at.start], 2)
            yield penalised(allowed, wanted, seen)


def check_choice(
    name: str, logits: TensorType, options: TensorType, state: TensorType, stops: TensorType
) -> TensorType:
    """Return the type of a number per row of logits.

    Raises:
        OpTypeError: Shapes or formats do not fit.
    """
    places = places_of(state)
    if logits.rank != 2 or not logits.dtype.is_float:
        raise OpTypeError(f"{name}: logits [n, vocab] are needed, got {logits}")
    if (
        places is None
        or options != TensorType(DType.F32, (*places.shape, OPTION_COLUMNS))
        or stops != TensorType(DType.I32, (*places.shape, STOP_COLUMNS))
    ):
        raise OpTypeError(f"{name}: {options}, {state} and {stops} do not fit")
    return TensorType(DType.I32, logits.shape[:1])


def check_kept(
    name: str, ids: TensorType, probabilities: TensorType, shape: tuple[object, ...]
) -> None:
    """Check tables of what drafts were drawn from.

    Raises:
        OpTypeError: They are no tokens and probabilities of ``shape``.
    """
    fits = ids.shape == probabilities.shape and ids.rank == 3 and ids.shape[:2] == shape
    if not fits or ids.dtype is not DType.I32 or probabilities.dtype is not DType.F32:
        raise OpTypeError(f"{name}: {ids} and {probabilities} do not keep what {shape} drafts need")
