"""Whether an operation treats every token by itself, told from the axes of its types."""

from collections.abc import Sequence

from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Argmax,
    Concat,
    CumulativeSum,
    HeadLinear,
    Histogram,
    Linear,
    Matmul,
    Reshape,
    RmsNorm,
    RouteTopk,
    ScatterAlong,
    ScatterRows,
    Slice,
    Softmax,
    Sort,
    TakeAlong,
    Topk,
)
from ascendfx.ir.reduction import Reduction
from ascendfx.ir.size import Dim, names_in, product
from ascendfx.ir.tensor_type import TensorType

_NAMES = frozenset({"tokens", "rows", "context"})
_ALONG_ONE = (Concat, CumulativeSum, ScatterAlong, Slice, Softmax, Sort, TakeAlong)
_OF_LAST = (Argmax, HeadLinear, Linear, RmsNorm, RouteTopk, Topk)
"""What works along the last axis, and more axes before it are items."""


def counts_tokens(size: Dim) -> bool:
    """Return whether a size grows with the number of tokens."""
    return bool(_NAMES & names_in(size))


def token_axes(kind: TensorType) -> list[int]:
    """Return the axes along which there are tokens."""
    return [axis for axis, size in enumerate(kind.shape) if counts_tokens(size)]


def mixed_tokens(op: Op, operands: Sequence[TensorType], results: Sequence[TensorType]) -> str:
    """Return how an operation lets tokens meet; empty if it does not.

    Args:
        op: No attention, no access to a cache, no expert dispatch: those are looked at elsewhere.
        operands: Types of its operands.
        results: Types of its results.
    """
    if any(len(token_axes(kind)) > 1 for kind in results):
        return "compares tokens with each other"
    axes = [token_axes(kind) for kind in operands]
    joins = isinstance(op, Histogram | ScatterRows) or (
        isinstance(op, Matmul) and _contracts(*operands)
    )
    along = _along(op, operands)
    return next(
        (
            text
            for holds, text in (
                (joins, "joins tokens"),
                (
                    any(axis in each for axis in along for each in axes),
                    "works along the axis of tokens",
                ),
                (
                    isinstance(op, HeadLinear | Linear) and axes[-1],
                    "has another weight for each token",
                ),
                (
                    isinstance(op, Reshape) and not _keeps(operands[0], results[0]),
                    "moves elements from token to token",
                ),
            )
            if holds
        ),
        "",
    )


def _along(op: Op, operands: Sequence[TensorType]) -> tuple[int, ...]:
    """Return the axes whose elements an operation joins or chooses from."""
    if isinstance(op, _ALONG_ONE):
        return (op.axis,)
    if isinstance(op, Reduction):
        return op.axes
    return (operands[0].rank - 1,) if isinstance(op, _OF_LAST) else ()


def _contracts(a: TensorType, b: TensorType) -> bool:
    return a.rank - 1 in token_axes(a) or max(b.rank - 2, 0) in token_axes(b)


def _keeps(before: TensorType, after: TensorType) -> bool:
    """Return whether what belongs to one token stays together: as many elements behind its axis."""
    old, new = token_axes(before), token_axes(after)
    if not old:
        return True
    return len(new) == 1 and product(before.shape[old[0] + 1 :]) == product(
        after.shape[new[0] + 1 :]
    )
