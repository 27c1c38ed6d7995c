"""The token behind each row, chosen as its request wants it."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops.verify_drafts import places_of
from ascendfx.ir.step_state import OPTION_COLUMNS, STOP_COLUMNS, Option, State, Stream
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.uniform import uniform


@dataclass(frozen=True, slots=True)
class SampleTokens(Op):
    """A token for each row of logits: the most likely one, or one drawn from what filters leave.

    | operand | type |
    |---|---|
    | ``logits`` | float ``[n, vocab]`` |
    | ``options`` | f32 ``[requests, 8]``, see `ascendfx.ir.step_state.Option` |
    | ``state`` | i32 ``[requests, 16]``, see `ascendfx.ir.step_state.State` |
    | ``stop_ids`` | i32 ``[requests, 8]``, negative: unused |
    | ``positions``, ``row_request`` | i32 ``[n]`` |

    With temperature 0 the token is that of the largest logit, the lowest id among equals.
    Otherwise ``p = softmax(logits / temperature)`` is ordered by probability descending, id
    ascending among equals, and cut to a prefix of that order three times: to ``TOP_K`` tokens; to
    the shortest prefix whose share of what is left is at least ``TOP_P``; to those of at least
    ``MIN_P`` times the largest probability. The token is drawn from the rest by its cumulative
    distribution in the order of ids: the first at which it exceeds ``u`` times its total, with
    ``u = uniform(seed, position + 1, Stream.SAMPLE)``.

    Stop tokens are not taken while ``GENERATED + position - LENGTH < MINIMUM``. The token is -1
    for a row that holds NaN or +inf, or whose logits are all -inf or all 0.
    """

    mnemonic: ClassVar[str] = "sample_tokens"

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return i32 ``[n]``.

        Raises:
            OpTypeError: Shapes or formats do not fit.
        """
        logits, options, state, stops, positions, row_request = operands
        places = places_of(state)
        if logits.rank != 2 or not logits.dtype.is_float:
            raise OpTypeError(f"sample_tokens: logits [n, vocab] are needed, got {logits}")
        rows = TensorType(DType.I32, logits.shape[:1])
        if positions != rows or row_request != rows:
            raise OpTypeError(f"sample_tokens: {positions} and {row_request} must be {rows}")
        if (
            places is None
            or options != TensorType(DType.F32, (*places.shape, OPTION_COLUMNS))
            or stops != TensorType(DType.I32, (*places.shape, STOP_COLUMNS))
        ):
            raise OpTypeError(f"sample_tokens: {options}, {state} and {stops} do not fit")
        return (rows,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Choose for each row."""
        logits, options, state, stops, positions, row_request = operands
        of_row = state[row_request]
        drawn = uniform(
            of_row[:, State.SEED_LOW], of_row[:, State.SEED_HIGH], positions + 1, Stream.SAMPLE
        )
        tokens = np.full(len(logits), -1, np.int64)
        for row, place in enumerate(row_request):
            allowed = allowed_logits(logits[row], state[place], stops[place], positions[row])
            if allowed is not None:
                tokens[row] = draw(choice_weights(allowed, options[place]), float(drawn[row]))
        return (tokens,)


def allowed_logits(logits: Array, state: Array, stops: Array, position: int) -> Array | None:
    """Return a row of logits without stop tokens that are too early; None: no token follows.

    Args:
        logits: ``[vocab]``.
        state: Of its request.
        stops: Of its request.
        position: Of the row.
    """
    if np.isnan(logits).any() or np.isposinf(logits).any() or not logits.any():
        return None
    allowed = np.array(logits, np.float64)
    if state[State.GENERATED] + position - state[State.LENGTH] < state[State.MINIMUM]:
        allowed[stops[(stops >= 0) & (stops < allowed.size)]] = -np.inf
    return None if np.isneginf(allowed).all() else allowed


def draw(weights: Array, u: float) -> int:
    """Return the first id at which the sum of weights exceeds ``u`` times their total."""
    cumulative = np.cumsum(weights)
    return int(np.searchsorted(cumulative, u * cumulative[-1], side="right"))


def choice_weights(logits: Array, options: Array) -> Array:
    """Return what each token weighs as its request wants it chosen.

    Args:
        logits: ``[vocab]``, some of them finite.
        options: Of the request.
    """
    if options[Option.TEMPERATURE] > 0:
        return kept_weights(logits, options)
    chosen = np.zeros(logits.shape)
    chosen[np.argmax(logits)] = 1
    return chosen


def kept_weights(logits: Array, options: Array) -> Array:
    """Return what each token weighs after all filters, relative to the largest; 0: not kept.

    Args:
        logits: ``[vocab]``, some of them finite.
        options: Of the request, with a temperature above 0.
    """
    weights = np.exp((logits - logits.max()) / options[Option.TEMPERATURE])
    order = np.argsort(-logits, kind="stable")
    ordered = weights[order]
    count = ordered.size
    if options[Option.TOP_K] >= 1:
        count = min(count, int(options[Option.TOP_K]))
    if 0 < options[Option.TOP_P] < 1:
        mass = np.cumsum(ordered[:count])
        count = int(np.searchsorted(mass, options[Option.TOP_P] * mass[-1], side="left")) + 1
    least = options[Option.MIN_P]
    count = min(count, int((ordered >= least).sum())) if least > 0 else count
    kept = np.zeros_like(weights)
    kept[order[: max(count, 1)]] = ordered[: max(count, 1)]
    return kept
