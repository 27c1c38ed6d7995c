"""ATen calls that reduce, sort or accumulate along axes."""

from collections.abc import Callable
from typing import Any

from ascendfx.ir.capture.translation import Handler, Result, Translation
from ascendfx.ir.op import Op
from ascendfx.ir.ops.argmax import Argmax
from ascendfx.ir.ops.cast import Cast
from ascendfx.ir.ops.concat import Concat
from ascendfx.ir.ops.cumulative_sum import CumulativeSum
from ascendfx.ir.ops.histogram import Histogram
from ascendfx.ir.ops.negate import Negate
from ascendfx.ir.ops.reduce_max import ReduceMax
from ascendfx.ir.ops.reduce_mean import ReduceMean
from ascendfx.ir.ops.reduce_sum import ReduceSum
from ascendfx.ir.ops.softmax import Softmax
from ascendfx.ir.ops.sort import Sort
from ascendfx.ir.ops.subtract import Subtract
from ascendfx.ir.ops.topk import Topk
from ascendfx.ir.size import simplify_size
from ascendfx.ir.tensor_type import DType, TensorType


def _reduction(op: Callable[[tuple[int, ...], bool], Op]) -> Handler:
    def handler(
        t: Translation,
        out: TensorType,
        a: Any,
        dims: Any = None,
        keepdim: bool = False,  # noqa: FBT001, FBT002  # the argument order is ATen's
        *,
        dtype: Any = None,
    ) -> Result:
        del dtype  # it is the result's
        value = t.operand(a, out.dtype)
        rank = t.type_of(value).rank
        axes = [dims] if isinstance(dims, int) else (dims or range(rank))
        chosen = tuple(sorted(t.axis(axis, rank) for axis in axes))
        return t.add(op(chosen, keepdim), value) if chosen else value

    return handler


def maximum_of_axis(
    t: Translation,
    outs: list[TensorType],
    a: Any,
    dim: int,
    keepdim: bool = False,  # noqa: FBT001, FBT002  # the argument order is ATen's
) -> Result:
    """The maximum and where it is."""
    values, places = outs
    value = t.operand(a, values.dtype)
    rank = t.type_of(value).rank
    axis = t.axis(dim, rank)
    best = t.add(ReduceMax((axis,), keepdim), value)
    if axis != rank - 1:
        return [best, None]
    found = t.cast(t.add(Argmax(), value), DType.I64)
    return [best, t.reshape(found, places.shape)]


def argmax(
    t: Translation,
    out: TensorType,
    a: Any,
    dim: int | None = None,
    keepdim: bool = False,  # noqa: FBT001, FBT002  # the argument order is ATen's
) -> Result:
    """Where the maximum of the last axis is."""
    del keepdim
    value = t.whole(a)
    rank = t.type_of(value).rank
    if dim is None or t.axis(dim, rank) != rank - 1:
        raise t.refuse("only the last axis can be searched")
    return t.reshape(t.cast(t.add(Argmax(), value), out.dtype), out.shape)


def softmax(t: Translation, out: TensorType, a: Any, dim: int, *_: Any, **_keywords: Any) -> Result:
    """Normalised exponentials, computed in the result's format."""
    return t.add(Softmax(t.axis(dim, out.rank)), t.operand(a, out.dtype))


def topk(  # noqa: PLR0917  # the order is ATen's
    t: Translation,
    outs: list[TensorType],
    a: Any,
    k: Any,
    dim: int = -1,
    largest: bool = True,  # noqa: FBT001, FBT002  # the argument order is ATen's
    sorted: bool = True,  # noqa: A002, FBT001, FBT002
) -> Result:
    """The extreme elements; ``sorted=False`` leaves the order open, ours is descending."""
    del sorted
    value = t.operand(a, outs[0].dtype)
    rank = t.type_of(value).rank
    if t.axis(dim, rank) != rank - 1 or not isinstance(k, int):
        raise t.refuse("only a number of elements of the last axis known now can be chosen")
    if largest:
        return list(t.builder.add_multi(Topk(k), value))
    values, places = t.builder.add_multi(Topk(k), t.add(Negate(), value))
    return [t.add(Negate(), values), places]


def sort(
    t: Translation,
    outs: list[TensorType],
    a: Any,
    dim: int = -1,
    descending: bool = False,  # noqa: FBT001, FBT002  # the argument order is ATen's
) -> Result:
    """An axis in order and where its elements came from; ours is always stable."""
    value = t.operand(a, outs[0].dtype)
    axis = t.axis(dim, outs[0].rank)
    return list(t.builder.add_multi(Sort(axis, descending), value))


def stable_sort(
    t: Translation,
    outs: list[TensorType],
    a: Any,
    *,
    dim: int = -1,
    descending: bool = False,
    stable: bool = True,
) -> Result:
    """As `sort`."""
    del stable
    return sort(t, outs, a, dim, descending)


def argsort(
    t: Translation,
    out: TensorType,
    a: Any,
    dim: int = -1,
    descending: bool = False,  # noqa: FBT001, FBT002  # the argument order is ATen's
) -> Result:
    """Where the elements of an axis in order came from."""
    value = t.whole(a)
    return t.builder.add_multi(Sort(t.axis(dim, out.rank), descending), value)[1]


def cumulative_sum(
    t: Translation, out: TensorType, a: Any, dim: int, *, dtype: Any = None
) -> Result:
    """Inclusive prefix sums in the result's format."""
    del dtype
    return t.add(CumulativeSum(t.axis(dim, out.rank)), t.operand(a, out.dtype))


def difference(  # noqa: PLR0917  # the order is ATen's
    t: Translation,
    out: TensorType,
    a: Any,
    n: int = 1,
    dim: int = -1,
    prepend: Any = None,
    append: Any = None,
) -> Result:
    """``a[i] - a[i-1]``, after joining what is to stand before and behind."""
    if n != 1:
        raise t.refuse(f"differences of order {n}")
    axis = t.axis(dim, out.rank)
    pieces = [t.operand(each, out.dtype) for each in (prepend, a, append) if each is not None]
    joined = pieces[0] if len(pieces) == 1 else t.add(Concat(axis), *pieces)
    size = t.type_of(joined).shape[axis]
    later = t.slice(joined, axis, 1, size)
    earlier = t.slice(joined, axis, 0, simplify_size(size - 1))
    return t.add(Subtract(), later, earlier)


def histogram(
    t: Translation,
    out: TensorType,
    a: Any,
    bins: int = 100,
    min: Any = 0,  # noqa: A002  # the names are ATen's
    max: Any = 0,  # noqa: A002
) -> Result:
    """Counts of the integers 0 to ``bins - 1``.

    ``histc`` over [0, bins - 1] puts v into bin floor(v * bins / (bins - 1)), which is v for every
    integer v below bins - 1, and bins - 1 for the last, because the right end is inclusive.
    """
    value = t.whole(a)
    op = t.builder.op_of(value)
    source = t.builder.operands_of(value)[0] if isinstance(op, Cast) else value
    if min != 0 or max != bins - 1 or t.type_of(source).dtype.is_float:
        raise t.refuse(f"only integers 0 to bins - 1 can be counted, got [{min}, {max}]")
    counted = value if out.dtype.is_float else source
    return t.cast(t.add(Histogram(bins), counted), out.dtype)


def bincount(
    t: Translation, out: TensorType, a: Any, weights: Any = None, minlength: int = 0
) -> Result:
    """Counting with a result size that depends on values."""
    del out, a, weights, minlength
    raise t.refuse(
        "the size of its result depends on values",
        hint="use torch.histc(x.float(), bins=n, min=0, max=n - 1)",
    )


def _table(names: str, handler: Handler) -> dict[str, Handler]:
    return {f"aten.{name}": handler for name in names.split()}


REDUCE: dict[str, Handler] = {
    **_table("sum.dim_IntList sum.default", _reduction(ReduceSum)),
    **_table("mean.dim mean.default", _reduction(ReduceMean)),
    **_table("amax.default max.default", _reduction(ReduceMax)),
    **_table("max.dim", maximum_of_axis),
    **_table("argmax.default", argmax),
    **_table("softmax.int _softmax.default", softmax),
    **_table("topk.default", topk),
    **_table("sort.default", sort),
    **_table("sort.stable", stable_sort),
    **_table("argsort.default", argsort),
    **_table("cumsum.default", cumulative_sum),
    **_table("diff.default", difference),
    **_table("histc.default", histogram),
    **_table("bincount.default", bincount),
}
