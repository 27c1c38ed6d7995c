"""Integer tensors that are known in closed form: affine functions of their indices.

Models compute positions and masks from ``arange`` by long detours (differences, running sums,
look-ups), whose results are again ``offset + sum of slope * index``. Knowing the closed form
proves, for example, that a mask is exactly "column <= row".
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Op
from ascendfx.ir.ops.add import Add
from ascendfx.ir.ops.cast import Cast
from ascendfx.ir.ops.concat import Concat
from ascendfx.ir.ops.constant import Constant
from ascendfx.ir.ops.cumulative_sum import CumulativeSum
from ascendfx.ir.ops.equal import Equal
from ascendfx.ir.ops.expand import Expand
from ascendfx.ir.ops.gather_rows import GatherRows
from ascendfx.ir.ops.greater import Greater
from ascendfx.ir.ops.greater_equal import GreaterEqual
from ascendfx.ir.ops.iota import Iota
from ascendfx.ir.ops.less import Less
from ascendfx.ir.ops.less_equal import LessEqual
from ascendfx.ir.ops.logical_and import LogicalAnd
from ascendfx.ir.ops.logical_not import LogicalNot
from ascendfx.ir.ops.logical_or import LogicalOr
from ascendfx.ir.ops.multiply import Multiply
from ascendfx.ir.ops.negate import Negate
from ascendfx.ir.ops.not_equal import NotEqual
from ascendfx.ir.ops.reshape import Reshape
from ascendfx.ir.ops.slice import Slice
from ascendfx.ir.ops.subtract import Subtract
from ascendfx.ir.ops.take_along import TakeAlong
from ascendfx.ir.ops.transpose import Transpose
from ascendfx.ir.size import Dim
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class Affine:
    """``y[i] = offset + sum of slopes[k] * i[k]``; truth values are 0 and 1.

    Attributes:
        offset: The first element.
        slopes: One per axis; zero on axes of size one.
    """

    offset: int
    slopes: tuple[int, ...]

    @property
    def is_constant(self) -> bool:
        """Whether all elements are equal."""
        return not any(self.slopes)

    def scaled(self, factor: int) -> "Affine":
        """Return the form of a multiple."""
        return Affine(self.offset * factor, tuple(slope * factor for slope in self.slopes))

    def plus(self, other: "Affine") -> "Affine":
        """Return the form of the sum; axes are aligned at the end, as broadcasting does."""
        rank = max(len(self.slopes), len(other.slopes))
        padded = [(0,) * (rank - len(f.slopes)) + f.slopes for f in (self, other)]
        return Affine(
            self.offset + other.offset, tuple(a + b for a, b in zip(*padded, strict=True))
        )


def closed_forms(graph: Graph) -> list[Affine | None]:
    """Return the form of the first result of each node, or None where it is not known."""
    forms: list[Affine | None] = []
    for node in graph.nodes:
        operands = [forms[v.node] if v.result == 0 else None for v in node.operands]
        types = [graph.type_of(v) for v in node.operands]
        forms.append(_form_of(node, operands, types))
    return forms


def _form_of(
    node: Node, operands: Sequence[Affine | None], types: Sequence[TensorType]
) -> Affine | None:
    if len(node.types) != 1 or node.types[0].dtype.is_float:
        return None
    rule = _RULES.get(type(node.op))
    known = [form for form in operands if form is not None]
    if rule is None or len(known) != len(operands):
        return None
    found = rule(node.op, known, types, node.types[0])
    return None if found is None else _normal(found, node.types[0])


def _normal(form: Affine, type_: TensorType) -> Affine:
    slopes = (
        0 if size == 1 else slope for size, slope in zip(type_.shape, form.slopes, strict=True)
    )
    return Affine(form.offset, tuple(slopes))


Rule = Callable[..., Affine | None]
"""``rule(operation, forms, operand types, result type)``; each takes its own operation."""


def _constant(
    op: Constant, _f: list[Affine], _t: Sequence[TensorType], _o: TensorType
) -> Affine | None:
    return Affine(int(op.value), ())


def _iota(op: Iota, _f: list[Affine], _t: Sequence[TensorType], _o: TensorType) -> Affine | None:
    return Affine(op.start, (op.step,))


def _cast(op: Cast, f: list[Affine], _t: Sequence[TensorType], _o: TensorType) -> Affine | None:
    if op.dtype is not DType.BOOL:
        return f[0]
    return Affine(int(f[0].offset != 0), f[0].slopes) if f[0].is_constant else None


def _reshape(
    _op: Op, f: list[Affine], types: Sequence[TensorType], out: TensorType
) -> Affine | None:
    """Axes of size one come and go; the others must stay as they are."""
    if f[0].is_constant:
        return Affine(f[0].offset, (0,) * out.rank)
    kept = [(n, s) for n, s in zip(types[0].shape, f[0].slopes, strict=True) if n != 1]
    places = [axis for axis, size in enumerate(out.shape) if size != 1]
    if [size for size, _ in kept] != [out.shape[axis] for axis in places]:
        return None
    slopes = [0] * out.rank
    for axis, (_, slope) in zip(places, kept, strict=True):
        slopes[axis] = slope
    return Affine(f[0].offset, tuple(slopes))


def _expand(_op: Op, f: list[Affine], _t: Sequence[TensorType], out: TensorType) -> Affine | None:
    return Affine(f[0].offset, (0,) * (out.rank - len(f[0].slopes)) + f[0].slopes)


def _slice(op: Slice, f: list[Affine], _t: Sequence[TensorType], _o: TensorType) -> Affine | None:
    slope = f[0].slopes[op.axis]
    if not isinstance(op.start, int):
        return f[0] if slope == 0 else None
    slopes = list(f[0].slopes)
    slopes[op.axis] = slope * op.step
    return Affine(f[0].offset + slope * op.start, tuple(slopes))


def _transpose(
    op: Transpose, f: list[Affine], _t: Sequence[TensorType], _o: TensorType
) -> Affine | None:
    return Affine(f[0].offset, tuple(f[0].slopes[axis] for axis in op.permutation))


def _concat(
    op: Concat, f: list[Affine], types: Sequence[TensorType], _o: TensorType
) -> Affine | None:
    """Each operand must continue the line of the one before it."""
    line = next((form for form in reversed(f) if form.slopes[op.axis]), f[-1])
    reached: Dim = 0
    for form, type_ in zip(reversed(f), reversed(types), strict=True):
        size = type_.shape[op.axis]
        if not isinstance(size, int) and form is not f[-1]:
            return None
        reached = 0 if form is f[-1] else reached + size
        same = size == 1 or form.slopes[op.axis] == line.slopes[op.axis]
        others = [s for axis, s in enumerate(form.slopes) if axis != op.axis]
        wanted = [s for axis, s in enumerate(line.slopes) if axis != op.axis]
        if not same or others != wanted or not isinstance(reached, int):
            return None
        if form.offset != f[-1].offset - reached * line.slopes[op.axis]:
            return None
    return Affine(f[0].offset, line.slopes)


def _gather_rows(
    _op: Op, f: list[Affine], _t: Sequence[TensorType], _o: TensorType
) -> Affine | None:
    table, ids = f
    first, *rest = table.slopes
    chosen = ids.scaled(first)
    return Affine(table.offset + chosen.offset, (*chosen.slopes, *rest))


def _take_along(
    op: TakeAlong, f: list[Affine], _t: Sequence[TensorType], _o: TensorType
) -> Affine | None:
    table, ids = f
    chosen = ids.scaled(table.slopes[op.axis])
    kept = tuple(0 if axis == op.axis else s for axis, s in enumerate(table.slopes))
    return chosen.plus(Affine(table.offset, kept))


def _cumulative_sum(
    op: CumulativeSum, f: list[Affine], _t: Sequence[TensorType], _o: TensorType
) -> Affine | None:
    if not f[0].is_constant:
        return None
    slopes = tuple(f[0].offset if axis == op.axis else 0 for axis in range(len(f[0].slopes)))
    return Affine(f[0].offset, slopes)


def _multiply(_op: Op, f: list[Affine], _t: Sequence[TensorType], out: TensorType) -> Affine | None:
    for factor, other in (f, f[::-1]):
        if factor.is_constant:
            zero = Affine(0, (0,) * out.rank)
            return other.scaled(factor.offset).plus(zero)
    return None


def _comparison(holds: Callable[[int], bool]) -> Rule:
    """Decided when the difference of both sides is the same everywhere."""

    def rule(_op: Op, f: list[Affine], _t: Sequence[TensorType], _o: TensorType) -> Affine | None:
        difference = f[0].plus(f[1].scaled(-1))
        if not difference.is_constant:
            return None
        return Affine(int(holds(difference.offset)), difference.slopes)

    return rule


def _logical(result: Callable[..., bool]) -> Rule:
    def rule(_op: Op, f: list[Affine], _t: Sequence[TensorType], out: TensorType) -> Affine | None:
        if not all(form.is_constant for form in f):
            return None
        return Affine(int(result(*(form.offset for form in f))), (0,) * out.rank)

    return rule


_RULES: dict[type[Op], Rule] = {
    Add: lambda _op, f, _t, _o: f[0].plus(f[1]),
    Cast: _cast,
    Concat: _concat,
    Constant: _constant,
    CumulativeSum: _cumulative_sum,
    Equal: _comparison(lambda d: d == 0),
    Expand: _expand,
    GatherRows: _gather_rows,
    Greater: _comparison(lambda d: d > 0),
    GreaterEqual: _comparison(lambda d: d >= 0),
    Iota: _iota,
    Less: _comparison(lambda d: d < 0),
    LessEqual: _comparison(lambda d: d <= 0),
    LogicalAnd: _logical(lambda a, b: bool(a and b)),
    LogicalNot: _logical(lambda a: not a),
    LogicalOr: _logical(lambda a, b: bool(a or b)),
    Multiply: _multiply,
    Negate: lambda _op, f, _t, _o: f[0].scaled(-1),
    NotEqual: _comparison(lambda d: d != 0),
    Reshape: _reshape,
    Slice: _slice,
    Subtract: lambda _op, f, _t, _o: f[0].plus(f[1].scaled(-1)),
    TakeAlong: _take_along,
    Transpose: _transpose,
}
