"""ATen calls that choose or replace elements by number."""

from typing import Any

from ascendfx.ir.capture.translation import Handler, Result, Translation
from ascendfx.ir.graph import Value
from ascendfx.ir.ops.gather_rows import GatherRows
from ascendfx.ir.ops.scatter_along import ScatterAlong
from ascendfx.ir.ops.scatter_rows import ScatterRows
from ascendfx.ir.ops.take_along import TakeAlong
from ascendfx.ir.tensor_type import DType, TensorType, broadcast


def embedding(t: Translation, out: TensorType, table: Any, ids: Any, *_: Any) -> Result:
    """Rows of a table."""
    del out
    return t.add(GatherRows(), table, ids)


def index_select(t: Translation, out: TensorType, a: Any, dim: int, ids: Any) -> Result:
    """Slices of an axis by number."""
    indices = [None] * t.axis(dim, out.rank) + [ids]
    return index(t, out, a, indices)


def index(t: Translation, out: TensorType, a: Any, indices: list[Any]) -> Result:
    """``a[i]``, ``a[:, i]`` or ``a[i, j]`` with integer tensors."""
    table = t.whole(a)
    ids = [t.whole(each) for each in indices]
    if any(i is not None and t.type_of(i).dtype is DType.BOOL for i in ids):
        raise t.refuse(
            "indexing with a mask has a result size that depends on values",
            hint="use torch.where with a full-size result",
        )
    axes = [axis for axis, i in enumerate(ids) if i is not None]
    if len(axes) == 1:
        return _gather(t, table, axes[0], ids[axes[0]])
    if axes == [0, 1]:
        return t.reshape(_gather_two(t, table, ids[0], ids[1]), out.shape)
    raise t.refuse(f"indices on axes {axes} cannot be represented")


def _gather(t: Translation, table: Value, axis: int, ids: Value) -> Value:
    rank, width = t.type_of(table).rank, t.type_of(ids).rank
    order = [axis, *(i for i in range(rank) if i != axis)]
    rows = t.add(GatherRows(), t.transpose(table, order), ids)
    # [*ids, *before, *after] -> [*before, *ids, *after]
    back = [*range(width, width + axis), *range(width), *range(width + axis, width + rank - 1)]
    return t.transpose(rows, back)


def _gather_two(t: Translation, table: Value, first: Value, second: Value) -> Value:
    """``table[first, second]``: rows by the first index, then an element by the second."""
    both = broadcast(t.type_of(first).shape, t.type_of(second).shape)
    if both is None or t.type_of(table).rank != 2:
        raise t.refuse("two indices are possible on tensors with two axes only")
    rows = t.add(GatherRows(), table, t.expand(first, both))
    ids = t.reshape(t.expand(second, both), (*both, 1))
    return t.add(TakeAlong(len(both)), rows, ids)


def index_put(
    t: Translation,
    out: TensorType,
    a: Any,
    indices: list[Any],
    values: Any,
    accumulate: bool = False,  # noqa: FBT001, FBT002  # the argument order is ATen's
) -> Result:
    """``a[i] = values``."""
    if accumulate or len(indices) != 1:
        raise t.refuse("only `a[i] = values` with one index can be represented")
    ids = t.whole(indices[0])
    if t.type_of(ids).rank != 1 or t.type_of(ids).dtype is DType.BOOL:
        raise t.refuse(f"the index must be a list of numbers, got {t.type_of(ids)}")
    shape = (*t.type_of(ids).shape, *out.shape[1:])
    rows = t.expand(t.operand(values, out.dtype), shape)
    return t.add(ScatterRows(), t.operand(a, out.dtype), ids, rows)


def gather(t: Translation, out: TensorType, a: Any, dim: int, ids: Any, **_: Any) -> Result:
    """Elements along an axis by number."""
    return t.add(TakeAlong(t.axis(dim, out.rank)), t.operand(a, out.dtype), t.whole(ids))


def scatter(t: Translation, out: TensorType, a: Any, dim: int, ids: Any, source: Any) -> Result:
    """``a`` with elements along an axis replaced."""
    base, places = t.operand(a, out.dtype), t.whole(ids)
    value = t.operand(source, out.dtype)
    wanted = t.type_of(places).shape
    if t.type_of(value).shape not in ((), wanted):
        for axis, size in enumerate(wanted):
            value = t.slice(value, axis, 0, size)
    return t.add(ScatterAlong(t.axis(dim, out.rank)), base, places, value)


def _table(names: str, handler: Handler) -> dict[str, Handler]:
    return {f"aten.{name}": handler for name in names.split()}


INDEX: dict[str, Handler] = {
    **_table("embedding.default", embedding),
    **_table("index.Tensor", index),
    **_table("index_select.default", index_select),
    **_table("index_put.default", index_put),
    **_table("gather.default", gather),
    **_table("scatter.value scatter.src", scatter),
}
