"""Write positions and masks in their shortest form, and leave out what nobody reads."""

from ascendfx.ir.capture.closed_form import Affine, closed_forms
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops.add import Add
from ascendfx.ir.ops.cast import Cast
from ascendfx.ir.ops.constant import Constant
from ascendfx.ir.ops.expand import Expand
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.iota import Iota
from ascendfx.ir.ops.logical_and import LogicalAnd
from ascendfx.ir.ops.multiply import Multiply
from ascendfx.ir.ops.param import Param
from ascendfx.ir.ops.reshape import Reshape
from ascendfx.ir.ops.select import Select
from ascendfx.ir.pointwise import Binary, Comparison, Unary
from ascendfx.ir.tensor_type import DType, TensorType


def simplify_positions(graph: Graph) -> Graph:
    """Return an equal graph (bit by bit) with closed forms written as such.

    * A tensor that `closed_forms` knows becomes a sum of reshaped `Iota` nodes or a constant.
    * ``x and true`` and ``x * 1`` become ``x``.
    * An elementwise operation reads values that depend on no tensor before they are expanded.
    """
    rewritten = _Rewriter(graph).run()
    return rewritten.part(rewritten.outputs, keep=rewritten.inputs)


def value_free(graph: Graph) -> list[bool]:
    """Return, for each node, whether it depends on no input and no parameter."""
    free: list[bool] = []
    for node in graph.nodes:
        free.append(
            not isinstance(node.op, Input | Param) and all(free[v.node] for v in node.operands)
        )
    return free


class _Rewriter:
    def __init__(self, graph: Graph) -> None:
        self._graph = graph
        self._forms = closed_forms(graph)
        self._free = value_free(graph)
        self._builder = GraphBuilder(graph.name)
        self._moved: dict[Value, Value] = {}

    def run(self) -> Graph:
        for position, node in enumerate(self._graph.nodes):
            with self._builder.at(node.location):
                results = self._rewrite(position, node)
            for i, result in enumerate(results):
                self._moved[Value(position, i)] = result
        return self._builder.build(*(self._moved[v] for v in self._graph.outputs))

    def _rewrite(self, position: int, node: Node) -> tuple[Value, ...]:
        form = self._forms[position]
        if form is not None:
            return (self._written(form, node.types[0]),)
        operands = tuple(self._moved[v] for v in node.operands)
        kept = self._without_neutral(node)
        if kept is not None:
            return (kept,)
        if isinstance(node.op, Unary | Binary | Comparison | Select | Cast):
            return (self._elementwise(node, operands),)
        if not node.operands:
            return (self._builder.leaf(node.op),)
        return self._builder.add_multi(node.op, *operands)

    def _written(self, form: Affine, type_: TensorType) -> Value:
        """Return a value of the stated form and type."""
        total: Value | None = None
        offset = form.offset
        for axis, slope in enumerate(form.slopes):
            if slope:
                size = type_.shape[axis]
                line = self._builder.leaf(Iota(size, type_.dtype, offset, slope))
                shape = tuple(size if i == axis else 1 for i in range(type_.rank))
                term = line if type_.rank == 1 else self._builder.add(Reshape(shape), line)
                total = term if total is None else self._builder.add(Add(), total, term)
                offset = 0
        if total is None:
            value = bool(form.offset) if type_.dtype is DType.BOOL else form.offset
            total = self._builder.leaf(Constant(value, type_.dtype))
        return self._expanded(total, type_)

    def _expanded(self, value: Value, type_: TensorType) -> Value:
        same = self._builder.type_of(value).shape == type_.shape
        return value if same else self._builder.add(Expand(type_.shape), value)

    def _without_neutral(self, node: Node) -> Value | None:
        """Return the operand that the result equals, if there is one."""
        if not isinstance(node.op, LogicalAnd | Multiply):
            return None
        for this, other in (node.operands, node.operands[::-1]):
            if self._is_one(this):
                if self._free[other.node]:
                    return self._expanded(self._moved[other], node.types[0])
                if self._graph.type_of(other) == node.types[0]:
                    return self._moved[other]
        return None

    def _is_one(self, value: Value) -> bool:
        form = self._forms[value.node]
        if form is not None:
            return form.is_constant and form.offset == 1
        op = self._graph.op_of(value)
        return isinstance(op, Constant) and op.value == 1

    def _elementwise(self, node: Node, operands: tuple[Value, ...]) -> Value:
        """Compute on operands before expansion; expand the result if it is too small then."""
        small = tuple(
            self._before_expansion(new) if self._free[old.node] else new
            for old, new in zip(node.operands, operands, strict=True)
        )
        result = self._builder.add(node.op, *small)
        return self._expanded(result, node.types[0])

    def _before_expansion(self, value: Value) -> Value:
        while isinstance(self._builder.op_of(value), Expand):
            (value,) = self._builder.operands_of(value)
        return value
