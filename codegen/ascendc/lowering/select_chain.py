"""Vector chains: cut the operations of a group out of the graph and plan them as one kernel."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendfx.codegen.ascendc.kernels.vector_chain.emit import emit_vector_chain
from ascendfx.codegen.ascendc.kernels.vector_chain.lower import COMPUTING
from ascendfx.codegen.ascendc.kernels.vector_chain.plan import plan_vector_chain
from ascendfx.codegen.ascendc.kernels.vector_kernel import RowView
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.codegen.ascendc.lowering.row_space import row_suffix
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.codegen.ascendc.lowering.unit import Unit
from ascendfx.codegen.ascendc.lowering.view import capacities, row_major
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import Constant, Input, Param
from ascendfx.ir.tensor_type import TensorType

_NAME = "chain"
"""Name of every cut-out graph: equal chains must be equal graphs."""

_NAMED_OPERATIONS = 4
"""Operations that the name of a kernel tells."""


@dataclass(frozen=True, slots=True)
class ChainGraph:
    """A group as a graph of its own.

    Attributes:
        graph: Inputs are whole buffers; slices and reshapes of them are part of the graph.
        inputs: The buffers, in the order of ``graph.inputs``.
        constants: The weights, in the order of ``graph.params``.
        outputs: The values that others read, in the order of ``graph.outputs``.
    """

    graph: Graph
    inputs: tuple[Value, ...]
    constants: tuple[Value, ...]
    outputs: tuple[Value, ...]


def select_chain(context: GraphContext, unit: Unit) -> list[KernelStep]:
    """Return the launches of a chain: one, or as few as fit the chip, split in graph order.

    Raises:
        GraphError: A single operation has no place in a chain.
    """
    steps: list[KernelStep] = []
    rest = list(unit.positions)
    while rest:
        taken = len(rest)
        step = _plan(context, unit, rest)
        while isinstance(step, GraphError):
            if taken == 1:
                raise step
            taken -= 1
            step = _plan(context, unit, rest[:taken])
        steps.append(step)
        rest = rest[taken:]
    return steps


def _plan(context: GraphContext, unit: Unit, positions: Sequence[int]) -> KernelStep | GraphError:
    chain = cut_chain(context, positions)
    rows = context.rows(context.node(positions[0]).types[0].shape[0], positions[0])
    try:
        plan = plan_vector_chain(
            chain.graph,
            rows=rows,
            target=context.target,
            views={i: row_view(context, value) for i, value in enumerate(chain.inputs)},
            output_views={i: row_view(context, value) for i, value in enumerate(chain.outputs)},
        )
    except GraphError as error:
        return error
    operands = [
        *map(context.operand, chain.inputs),
        *(context.dense_operand(value, positions[0]) for value in chain.constants),
        *map(context.operand, chain.outputs),
    ]
    return KernelStep(
        plan=plan,
        emit=emit_vector_chain,
        name=_name(context, positions, row_suffix(rows)),
        operands=tuple(operands),
        position=positions[-1],
        covers=tuple(positions),
    )


def cut_chain(context: GraphContext, positions: Sequence[int]) -> ChainGraph:
    """Return the nodes at ``positions`` and the views they read through as a graph."""
    return _Cut(context, frozenset(positions)).run()


class _Cut:
    """Copies nodes on demand, from the results backwards."""

    def __init__(self, context: GraphContext, positions: frozenset[int]) -> None:
        self._context = context
        self._positions = positions
        self._builder = GraphBuilder(_NAME)
        self._moved: dict[Value, Value] = {}
        self._inputs: list[Value] = []
        self._constants: list[Value] = []

    def run(self) -> ChainGraph:
        for position in sorted(self._positions):
            self._copy(Value(position))
        outputs = self._outputs()
        graph = self._builder.build(*(self._moved[value] for value in outputs))
        return ChainGraph(graph, tuple(self._inputs), tuple(self._constants), outputs)

    def _copy(self, value: Value) -> Value:
        if value not in self._moved:
            self._moved[value] = self._make(value)
        return self._moved[value]

    def _make(self, value: Value) -> Value:
        context, builder = self._context, self._builder
        node = context.node(value.node)
        kind = context.graph.type_of(value)
        if isinstance(node.op, Constant):
            return builder.add(node.op)
        if value.node in context.constants:
            self._constants.append(value)
            return builder.add(Param(f"w{len(self._constants) - 1}", kind))
        if context.views.is_root(value) and value.node not in self._positions:
            self._inputs.append(value)
            stored = TensorType(context.view(value).dtype, kind.shape)
            return builder.add(Input(f"x{len(self._inputs) - 1}", stored))
        operands = tuple(map(self._copy, node.operands))
        with builder.at(node.location):
            return builder.add(node.op, *operands)

    def _outputs(self) -> tuple[Value, ...]:
        """Return the results that a launch outside, or the caller, looks at through any view."""
        graph, views = self._context.graph, self._context.views
        seen: dict[Value, None] = {}
        for value, view in views.of.items():
            if view.root.node in self._positions:
                users = graph.uses.get(value, ())
                if value in graph.outputs or any(self._is_outside(user) for user in users):
                    seen[view.root] = None
        return tuple(sorted(seen))

    def _is_outside(self, user: int) -> bool:
        views_own = self._context.views.of[Value(user)].root.node in self._positions
        return user not in self._positions and not (
            views_own and not self._context.views.is_root(Value(user))
        )


def row_view(context: GraphContext, value: Value) -> RowView:
    """Return where the rows of a buffer's value lie.

    Raises:
        GraphError: The elements of one row do not follow each other.
    """
    view = context.view(value)
    shape = capacities(view.shape, context.capacity)
    inner = row_major(shape[1:])
    if any(
        size != 1 and stride != wanted
        for size, stride, wanted in zip(shape[1:], view.strides[1:], inner, strict=True)
    ):
        raise context.refusal(value.node, f"a row of {view.type()} is not contiguous")
    columns = 1
    for size in shape[1:]:
        columns *= size
    return RowView(max(view.strides[0], columns), view.offset)


def _name(context: GraphContext, positions: Sequence[int], suffix: str) -> str:
    """Return the operations that compute, whose rows, width and format of the last result."""
    names: Mapping[str, None] = dict.fromkeys(
        node.op.mnemonic
        for node in map(context.node, positions)
        if type(node.op) in COMPUTING and node.op.mnemonic != "cast"
    )
    kind = context.node(positions[-1]).types[0]
    widths = [str(size) for size in kind.shape[1:] if size != 1]
    told = "_".join(list(names)[:_NAMED_OPERATIONS] or ["copy"])
    return f"{told}{suffix}_n{'x'.join(widths) or 1}_{kind.dtype.value}"
