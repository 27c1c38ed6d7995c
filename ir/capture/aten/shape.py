"""ATen calls that move elements without computing: views, joins, parts."""

from typing import Any

from ascendfx.ir.capture.translation import Buffer, ComplexPair, Handler, Result, Translation
from ascendfx.ir.graph import Value
from ascendfx.ir.ops.concat import Concat
from ascendfx.ir.size import Dim, simplify_size
from ascendfx.ir.tensor_type import TensorType


def _each_part(handler: Handler) -> Handler:
    """Apply a handler that only moves elements to both parts of a complex operand."""

    def applied(t: Translation, out: Any, a: Any, *arguments: Any, **keywords: Any) -> Result:
        if not isinstance(a, ComplexPair):
            return handler(t, out, a, *arguments, **keywords)
        parts = [handler(t, out, part, *arguments, **keywords) for part in (a.real, a.imaginary)]
        return ComplexPair(*parts)

    return applied


def reshape(t: Translation, out: TensorType, a: Any, *_: Any, **_keywords: Any) -> Result:
    """Any view that keeps the row-major order; the shape is the result's."""
    return t.reshape(t.whole(a), out.shape)


def expand(t: Translation, out: TensorType, a: Any, *_: Any, **_keywords: Any) -> Result:
    """Repetition along axes of size one."""
    return t.expand(t.whole(a), out.shape)


def permute(t: Translation, out: TensorType, a: Any, axes: list[int]) -> Result:
    """Any order of the axes."""
    return t.transpose(t.whole(a), [t.axis(axis, out.rank) for axis in axes])


def transpose(t: Translation, out: TensorType, a: Any, first: int = 0, second: int = 1) -> Result:
    """Two axes exchanged."""
    order = list(range(out.rank))
    if out.rank > 1:
        first, second = t.axis(first, out.rank), t.axis(second, out.rank)
        order[first], order[second] = order[second], order[first]
    return t.transpose(t.whole(a), order)


def slice_axis(  # noqa: PLR0917  # the order is ATen's
    t: Translation,
    out: TensorType,
    a: Any,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Result:
    """``a[..., start:end:step, ...]``."""
    type_ = a.type if isinstance(a, Buffer) else t.type_of(a)
    axis = t.axis(dim, type_.rank)
    first, stop = _bounds(t, type_.shape[axis], out.shape[axis], (start, end, step))
    if isinstance(a, Buffer):
        return _slice_buffer(t, a, out, axis, (first, stop, step))
    return t.slice(a, axis, first, stop, step)


def _bounds(t: Translation, size: Dim, length: Dim, part: tuple[Any, Any, int]) -> tuple[Dim, Dim]:
    """Return start and stop counted from zero; PyTorch counts from the end and cuts off."""
    start, end, step = part
    start = 0 if start is None else start
    if step == 1:
        if isinstance(start, int) and start < 0:
            # A negative start that reaches beyond the front means the front.
            beyond = isinstance(size, int) and size + start < 0
            start = 0 if beyond or length == size else simplify_size(size + start)
        if length == size:
            start = 0
        return start, simplify_size(start + length)
    if not isinstance(size, int) or not isinstance(start, int):
        raise t.refuse(f"a step of {step} needs sizes that are known, got {size}")
    first, stop, _ = slice(start, end, step).indices(size)
    return first, max(first, stop)


def _slice_buffer(
    t: Translation, buffer: Buffer, out: TensorType, axis: int, part: tuple[Dim, Dim, int]
) -> Result:
    """A part of memory that is not completely written; what lies in it stays known."""
    first, stop, step = part
    if not buffer.parts:
        return Buffer(out)
    exact = [value for start, end, value in buffer.parts if (start, end) == (first, stop)]
    if axis == buffer.axis and step == 1 and exact:
        return exact[0]
    numbers = [bound for start, end, _ in buffer.parts for bound in (start, end)]
    if axis == buffer.axis and all(isinstance(n, int) for n in (first, stop, *numbers)):
        inside = any(start < stop and first < end for start, end, _ in buffer.parts)
        if not inside:
            return Buffer(out)
    return t.slice(t.whole(buffer), axis, first, stop, step)


def select(t: Translation, out: TensorType, a: Any, dim: int, index: Any) -> Result:
    """``a[..., index, ...]``."""
    value = t.whole(a)
    shape = t.type_of(value).shape
    axis = t.axis(dim, len(shape))
    first = (
        index if not isinstance(index, int) or index >= 0 else simplify_size(shape[axis] + index)
    )
    return t.reshape(t.slice(value, axis, first, simplify_size(first + 1)), out.shape)


def split(t: Translation, outs: list[TensorType], a: Any, _sizes: Any, dim: int = 0) -> Result:
    """Consecutive parts of an axis; their sizes are the results'."""
    value = t.whole(a)
    axis = t.axis(dim, t.type_of(value).rank)
    parts: list[Value] = []
    start: Dim = 0
    for out in outs:
        stop = simplify_size(start + out.shape[axis])
        parts.append(t.slice(value, axis, start, stop))
        start = stop
    return parts


def unbind(t: Translation, outs: list[TensorType], a: Any, dim: int = 0) -> Result:
    """The slices of an axis, one by one."""
    return [select(t, out, a, dim, index) for index, out in enumerate(outs)]


def concat(t: Translation, out: TensorType, tensors: list[Any], dim: int = 0) -> Result:
    """The operands one after the other."""
    if any(isinstance(each, ComplexPair) for each in tensors):
        return ComplexPair(
            concat(t, out, [each.real for each in tensors], dim),
            concat(t, out, [each.imaginary for each in tensors], dim),
        )
    values = [t.operand(each, out.dtype) for each in tensors]
    # PyTorch skips empty one-dimensional operands whatever the others' rank.
    values = [value for value in values if t.type_of(value).shape != (0,) or out.rank == 1]
    axis = t.axis(dim, out.rank)
    return values[0] if len(values) == 1 else t.add(Concat(axis), *values)


def stack(t: Translation, out: TensorType, tensors: list[Any], dim: int = 0) -> Result:
    """The operands along a new axis."""
    axis = t.axis(dim, out.rank)
    single = (*out.shape[:axis], 1, *out.shape[axis + 1 :])
    values = [t.reshape(t.operand(each, out.dtype), single) for each in tensors]
    return concat(t, out, values, axis)


def copy(t: Translation, out: TensorType, _target: Any, source: Any, *_: Any) -> Result:
    """The source in the target's type; functionalised ``target.copy_(source)``."""
    return t.expand(t.operand(source, out.dtype), out.shape)


def slice_scatter(  # noqa: PLR0917  # the order is ATen's
    t: Translation,
    out: TensorType,
    a: Any,
    source: Any,
    dim: int = 0,
    start: Any = None,
    end: Any = None,
    step: int = 1,
) -> Result:
    """``a`` with a part of an axis replaced; functionalised ``a[..., start:end] = source``."""
    axis = t.axis(dim, out.rank)
    value = t.operand(source, out.dtype)
    length = t.type_of(value).shape[axis]
    if step != 1:
        raise t.refuse(f"writing with a step of {step} cannot be represented")
    first, stop = _bounds(t, out.shape[axis], length, (start, end, step))
    if isinstance(a, Buffer) and (not a.parts or a.axis == axis):
        return _write(t, a, axis, (first, stop, value))
    base = t.whole(a)
    size = out.shape[axis]
    pieces = [(0, first), (first, stop), (stop, size)]
    kept = [
        value if i == 1 else t.slice(base, axis, low, high)
        for i, (low, high) in enumerate(pieces)
        if low != high
    ]
    return kept[0] if len(kept) == 1 else t.add(Concat(axis), *kept)


def _write(
    t: Translation, buffer: Buffer, axis: int, part: tuple[Dim, Dim, Value]
) -> Buffer | Value:
    """Add a part; complete memory becomes a value."""
    first, stop, _ = part
    bounds = [bound for start, end, _ in buffer.parts for bound in (start, end)]
    if buffer.parts and not all(isinstance(bound, int) for bound in (*bounds, first, stop)):
        follows = buffer.parts[-1][1] == first
        if not follows:
            raise t.refuse("the order of the written parts depends on symbolic sizes")
    elif any(start < stop and first < end for start, end, _ in buffer.parts):
        base = t.whole(buffer)
        size = buffer.type.shape[axis]
        pieces = [
            t.slice(base, axis, low, high)
            for low, high in ((0, first), (stop, size))
            if low != high
        ]
        pieces.insert(int(first != 0), part[2])
        return pieces[0] if len(pieces) == 1 else t.add(Concat(axis), *pieces)
    parts = (*buffer.parts, part)
    if all(isinstance(start, int) for start, _, _ in parts):
        parts = tuple(sorted(parts, key=lambda each: each[0]))
    return Buffer(buffer.type, axis, parts)


def select_scatter(
    t: Translation, out: TensorType, a: Any, source: Any, dim: int, index: int
) -> Result:
    """``a`` with one slice of an axis replaced."""
    axis = t.axis(dim, out.rank)
    shape = (*out.shape[:axis], 1, *out.shape[axis + 1 :])
    row = t.reshape(t.operand(source, out.dtype), shape)
    if index < 0:
        index = simplify_size(out.shape[axis] + index)  # pyright: ignore[reportAssignmentType]
    return slice_scatter(t, out, a, row, axis, index, index + 1)


def _table(names: str, handler: Handler) -> dict[str, Handler]:
    return {f"aten.{name}": handler for name in names.split()}


SHAPE: dict[str, Handler] = {
    **_table(
        "view.default reshape.default _unsafe_view.default unsqueeze.default squeeze.dim "
        "squeeze.dims squeeze.default flatten.using_ints unflatten.int view_copy.default",
        _each_part(reshape),
    ),
    **_table("expand.default expand_as.default", _each_part(expand)),
    **_table("permute.default", _each_part(permute)),
    **_table("transpose.int t.default numpy_T.default", _each_part(transpose)),
    **_table("slice.Tensor", _each_part(slice_axis)),
    **_table("select.int", _each_part(select)),
    **_table("split.Tensor split_with_sizes.default chunk.default split.sizes", split),
    **_table("unbind.int", unbind),
    **_table("cat.default", concat),
    **_table("stack.default", stack),
    **_table("copy.default", copy),
    **_table("slice_scatter.default", slice_scatter),
    **_table("select_scatter.default", select_scatter),
}
