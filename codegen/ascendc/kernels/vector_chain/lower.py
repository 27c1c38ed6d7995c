"""Turn a graph of token-wise operations into the steps of a chain."""

from collections.abc import Mapping

import numpy as np

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.vector_chain.builder import (
    ChainBuilder,
    Number,
    Operand,
    Repeated,
    View,
    all_numbers,
)
from ascendfx.codegen.ascendc.kernels.vector_chain.digits import split_codes
from ascendfx.codegen.ascendc.kernels.vector_chain.elementwise import ELEMENTWISE, Lowering
from ascendfx.codegen.ascendc.kernels.vector_chain.layout import GlobalView
from ascendfx.codegen.ascendc.kernels.vector_chain.program import Argument, ChainProgram
from ascendfx.codegen.ascendc.kernels.vector_chain.reductions import REDUCTIONS
from ascendfx.codegen.ascendc.kernels.vector_chain.rotary import lower_rotary
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView, check_view
from ascendfx.ir import ops
from ascendfx.ir.diagnostic import GraphError, OpTypeError
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.kept_roundings import RoundingCast, kept_roundings
from ascendfx.ir.op import Op
from ascendfx.ir.size import Dim
from ascendfx.ir.tensor_type import DType, TensorType

_FORMATS = (DType.F32, DType.BF16)
"""Formats that operations of a chain compute with."""

_READ = (*_FORMATS, DType.I32, DType.I8)
"""Formats of inputs; integers are only moved and cast."""

_WRITTEN = (*_FORMATS, DType.I8, DType.I4X2)

_CASTS = {
    **dict.fromkeys(_FORMATS, (*_FORMATS, DType.I8)),
    DType.I32: (DType.F32,),  # to bf16 it would be rounded twice
    DType.I8: _FORMATS,
}
"""Casts of a chain: from, to."""

COMPUTING: Mapping[type[Op], Lowering] = {
    **ELEMENTWISE,
    **REDUCTIONS,
    ops.Rotary: lower_rotary,
    ops.SplitCodes: split_codes,
}
"""Operations that become vector instructions; the others of a chain only move data."""

_LABELS: tuple[type[Op], ...] = (ops.Expand, ops.Reshape, ops.Slice)
"""Operations that choose what is copied in, whatever its format."""

MOVING: tuple[type[Op], ...] = (ops.Concat, ops.Expand, ops.GatherRows, ops.Reshape, ops.Slice)


def lines_of(shape: tuple[Dim, ...]) -> tuple[int, int]:
    """Return groups and columns of a shape without its row axis.

    Raises:
        OpTypeError: An axis is not known now, or there are more than two.
    """
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) != len(shape):
        raise OpTypeError("an axis besides the rows is not known now")
    while len(sizes) > 2 and sizes[0] == 1:
        sizes.pop(0)
    if len(sizes) > 2:
        raise OpTypeError(f"more than two axes besides the rows: {sizes}")
    return (sizes[0], sizes[1]) if len(sizes) == 2 else (1, sizes[0] if sizes else 1)


def lower_graph(
    graph: Graph,
    rows: DeviceSize,
    input_views: Mapping[int, RowView],
    output_views: Mapping[int, RowView],
) -> ChainProgram:
    """Return the steps of ``graph``.

    Raises:
        GraphError: An operation, a format or a layout has no place in a chain.
    """
    return _Lowering(graph, rows, input_views, output_views).run()


class _Lowering:
    """The state of one lowering: what every value of the graph became."""

    def __init__(
        self,
        graph: Graph,
        rows: DeviceSize,
        input_views: Mapping[int, RowView],
        output_views: Mapping[int, RowView],
    ) -> None:
        self._graph = graph
        self._rows = rows
        self._input_views = input_views
        self._output_views = output_views
        self._builder = ChainBuilder()
        self._rounding = kept_roundings(graph)
        self._operands: dict[Value, Operand] = {}

    def run(self) -> ChainProgram:
        graph = self._graph
        inputs = [
            self._input(value, f"x{i}", self._input_views.get(i))
            for i, value in enumerate(graph.inputs)
        ]
        inputs += [self._parameter(value, f"w{i}") for i, value in enumerate(graph.params)]
        for position, node in enumerate(graph.nodes):
            if not isinstance(node.op, ops.Input | ops.Param):
                self._builder.origin = f"%{position} = {node.op.mnemonic}"
                rounds = position in self._rounding
                self._operands[Value(position)] = self._lower(node, rounds=rounds)
        outputs = [
            self._output(value, f"y{i}", self._output_views.get(i))
            for i, value in enumerate(graph.outputs)
        ]
        builder = self._builder
        return ChainProgram(
            tuple(inputs),
            tuple(outputs),
            tuple(builder.steps),
            tuple(builder.layouts),
            tuple(builder.origins),
        )

    def _input(self, value: Value, name: str, view: RowView | None) -> Argument:
        node = self._graph.nodes[value.node]
        groups, columns = self._lines(node, node.types[0].shape[1:])
        row = self._row_view(node, view, groups * columns)
        whole = GlobalView(row.offset, row.stride, groups, columns, columns)
        self._operands[value] = View(name, whole, per_row=True, dtype=node.types[0].dtype)
        meaning = node.op.name if isinstance(node.op, ops.Input) else ""
        return self._argument(name, node.types[0], meaning, row, groups * columns, formats=_READ)

    def _parameter(self, value: Value, name: str) -> Argument:
        node = self._graph.nodes[value.node]
        groups, columns = self._lines(node, node.types[0].shape)
        self._operands[value] = View(
            name,
            GlobalView(0, 0, groups, columns, columns),
            per_row=False,
            dtype=node.types[0].dtype,
        )
        meaning = node.op.name if isinstance(node.op, ops.Param) else ""
        check_format(self._graph, node, node.types[0])
        shown = f"{meaning}: {node.types[0]}"
        return Argument(name, node.types[0].dtype, shown, groups * columns)

    def _output(self, value: Value, name: str, view: RowView | None) -> Argument:
        node = self._graph.nodes[value.node]
        kind = self._graph.type_of(value)
        groups, columns = self._lines(node, kind.shape[1:])
        row = self._row_view(node, view, groups * columns)
        try:
            self._builder.store(
                name,
                self._operands[value],
                GlobalView(row.offset, row.stride, groups, columns, columns),
                kind.dtype,
            )
        except OpTypeError as error:
            raise self._refusal(node, error.reason) from error
        return self._argument(name, kind, f"%{value.node}", row, groups * columns)

    def _argument(
        self,
        name: str,
        kind: TensorType,
        meaning: str,
        row: RowView,
        length: int,
        *,
        formats: tuple[DType, ...] = _WRITTEN,
    ) -> Argument:
        if kind.dtype not in formats:
            raise GraphError(
                code="not-a-chain",
                reason=f"{self._graph.name}: {meaning} is {kind}, a chain has {_told(formats)}",
                hint="insert a cast",
            )
        elements = row.offset + (self._rows.capacity - 1) * row.stride + length
        return Argument(name, kind.dtype, f"{meaning}: {kind}", elements)

    def _row_view(self, node: Node, view: RowView | None, length: int) -> RowView:
        view = view or RowView(length)
        if not node.types[0].shape:
            raise self._refusal(node, "it has no row axis")
        check_view(self._graph.name, view, length)
        return view

    def _lines(self, node: Node, shape: tuple[Dim, ...]) -> tuple[int, int]:
        try:
            return lines_of(shape)
        except OpTypeError as error:
            raise self._refusal(node, error.reason) from error

    def _lower(self, node: Node, *, rounds: bool) -> Operand:
        operands = tuple(self._operands[value] for value in node.operands)
        types = tuple(map(self._graph.type_of, node.operands))
        op = node.op
        try:
            if isinstance(op, ops.Constant):
                return Number(float(op.value))
            if all_numbers(operands) and operands:
                values = [np.asarray(each.value) for each in operands if isinstance(each, Number)]
                exact = RoundingCast(op.dtype) if rounds and isinstance(op, ops.Cast) else op
                return Number(float(exact.reference(*values)[0]))
            _check_joins(op, types)
            if rounds:
                return self._builder.rounded(operands[0])
            if type(op) in COMPUTING:
                return COMPUTING[type(op)](self._builder, op, operands)
            return self._move(op, operands, node)
        except OpTypeError as error:
            raise self._refusal(node, error.reason) from error

    def _move(self, op: Op, operands: tuple[Operand, ...], node: Node) -> Operand:
        builder, kind = self._builder, node.types[0]
        first = operands[0]
        if isinstance(op, ops.GatherRows):
            return builder.rows_of(first, operands[1])
        if isinstance(op, ops.Concat):
            return builder.concat(operands)
        if isinstance(op, ops.Slice):
            start, stop = op.start, op.stop
            if not isinstance(start, int) or not isinstance(stop, int):
                raise OpTypeError("the bounds are not known now")
            if op.axis == kind.rank - 1:
                return builder.columns(first, start, stop, op.step)
            return builder.groups(first, start, stop - start)
        per_row = builder.layout(first).per_row
        groups, columns = lines_of(kind.shape[1:] if per_row else kind.shape)
        if isinstance(op, ops.Reshape):
            return builder.regroup(first, groups, columns)
        if columns != builder.layout(first).columns:
            raise OpTypeError("the last axis is not expanded")
        return Repeated(first, groups) if groups != builder.layout(first).groups else first

    def _refusal(self, node: Node, reason: str) -> GraphError:
        shown = ", ".join(str(self._graph.type_of(value)) for value in node.operands)
        return GraphError(
            code="not-a-chain",
            reason=f"{self._graph.name}: {node.op.mnemonic}: {reason}",
            location=node.location,
            excerpt=f"{node.op.mnemonic} {shown} -> {', '.join(map(str, node.types))}",
            hint="write this line of the model with element-wise operations and reductions of the "
            "last axis",
        )


def _told(formats: tuple[DType, ...]) -> str:
    *names, last = (each.value for each in formats)
    return f"{', '.join(names)} and {last}"


def check_format(graph: Graph, node: Node, kind: TensorType) -> None:
    """Check that a parameter has a format the vector unit reads.

    Raises:
        GraphError: It has not.
    """
    if kind.dtype not in _READ:
        raise GraphError(
            code="not-a-chain",
            reason=f"{graph.name}: {kind}: a chain has {_told(_READ)}",
            location=node.location,
            hint="insert a cast",
        )


def _check_joins(op: Op, types: tuple[TensorType, ...]) -> None:
    reason = can_join_chain(op, types)
    if reason is not None:
        raise OpTypeError(reason)


def can_join_chain(op: Op, types: tuple[TensorType, ...]) -> str | None:
    """Return why an operation on operands of ``types`` cannot be part of a chain, or None.

    The first axis of every operand that is no parameter is the row axis. Layout details (whole
    blocks in concatenations of computed lines, constant exponents) are checked by the planner.
    """
    if isinstance(op, ops.Constant):
        return None
    if type(op) not in COMPUTING and not isinstance(op, MOVING):
        return f"{op.mnemonic} is no operation of a chain"
    if isinstance(op, ops.GatherRows):
        return _gather_reason(types)
    if isinstance(op, ops.Cast):
        if op.dtype not in _CASTS.get(types[0].dtype, ()):
            return f"no cast of {types[0]} to {op.dtype.value}"
    else:
        formats = _READ if isinstance(op, _LABELS) else _FORMATS
        wrong = next((kind for kind in types if kind.dtype not in formats), None)
        if wrong is not None:
            return f"{wrong} is neither f32 nor bf16"
    deep = next((kind for kind in types if kind.rank > 3), None)
    if deep is not None:
        return f"{deep} has more than two axes besides the rows"
    return _axis_reason(op, types)


def _gather_reason(types: tuple[TensorType, ...]) -> str | None:
    table, numbers = types
    if table.rank != 2 or table.dtype is not DType.F32 or table.shape[1] == 1:
        return f"{table} is no f32 table of rows"
    if numbers.rank != 1 or numbers.dtype is not DType.I32:
        return f"{numbers} is no i32 number per row"
    return None


def _axis_reason(op: Op, types: tuple[TensorType, ...]) -> str | None:
    last = types[0].rank - 1
    if isinstance(op, ops.ReduceMax | ops.ReduceMean | ops.ReduceSum):
        if op.axes != (last,) or last == 0:
            return f"the reduction is over {op.axes}, not over the last axis"
        if not op.keep and last > 1:
            return "the reduced axis of a value with groups does not stay"
    if isinstance(op, ops.SplitCodes) and last != 1:
        return "only one line of codes in a row is split into digits"
    if isinstance(op, ops.Softmax) and (op.axis != last or last == 0):
        return f"the softmax is along axis {op.axis}, not along the last"
    if isinstance(op, ops.Concat) and (op.axis != last or last == 0):
        return f"the concatenation is along axis {op.axis}, not along the last"
    if isinstance(op, ops.Slice):
        if op.axis == 0 and last > 0:
            return "the slice cuts rows"
        if op.axis != last and op.step != 1:
            return "the slice skips groups"
    return None
