"""Group token-wise operations over the same rows into as few launches as possible.

First a producer joins its readers, then operations that read a common tensor join each other. Two
units join only if nothing outside both lies on a way from one to the other.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import permutations

from ascendfx.codegen.ascendc.kernels.vector_chain.lower import can_join_chain
from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.codegen.ascendc.lowering.row_space import is_row_size
from ascendfx.codegen.ascendc.lowering.unit import (
    Unit,
    dependences,
    is_computed,
    makers,
    reachable,
)
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import GatherRows, RowGroups, Transpose
from ascendfx.ir.size import Dim
from ascendfx.ir.text.printer import print_node

Related = Callable[[GraphContext, Unit, Unit], bool]
"""Whether two chains have something to gain from each other."""


@dataclass(frozen=True, slots=True)
class Grouping:
    """The launches of a graph.

    Attributes:
        units: In no particular order.
        remarks: Which neighbours did not join, and why.
    """

    units: tuple[Unit, ...]
    remarks: tuple[str, ...]


def group_vector_chains(context: GraphContext, taken: Sequence[Unit]) -> Grouping:
    """Return the units of a graph.

    Args:
        context: The graph.
        taken: Units that are decided already.
    """
    covered = {position for unit in taken for position in unit.positions}
    units = [
        *taken,
        *(
            Unit((position,), chain=why_no_chain(context, position) is None)
            for position in range(len(context.graph.nodes))
            if is_computed(context, position) and position not in covered
        ),
    ]
    remarks: dict[str, None] = {}
    for related in (_reads, _shares_an_operand):
        while pair := _find_pair(context, units, related, remarks):
            first, second = (units.pop(i) for i in sorted(pair, reverse=True))
            units.append(Unit(tuple(sorted(first.positions + second.positions)), chain=True))
    return Grouping(tuple(units), tuple(remarks))


def why_no_chain(context: GraphContext, position: int) -> str | None:
    """Return why a node cannot be part of a vector chain, or None."""
    node = context.node(position)
    graph = context.graph
    if len(node.types) != 1 or position in context.views.joined_in_place:
        return "it is no token-wise operation"
    reason = can_join_chain(node.op, tuple(map(graph.type_of, node.operands)))
    if reason is not None:
        return reason
    if isinstance(node.op, GatherRows):
        table, numbers = node.operands
        if table.node not in context.constants or not isinstance(graph.op_of(numbers), RowGroups):
            return "only what groups have of their own is looked up in a chain"
    rows = row_axis(context, position)
    if rows is None or not is_row_size(rows, context.capacity, context.pairs_per_row):
        return f"the first axis of {node.types[0]} is no row count"
    for operand in node.operands:
        if operand.node in context.constants:
            continue
        if graph.type_of(operand).shape[:1] != (rows,):
            return f"{graph.type_of(operand)} does not have the rows of {node.types[0]}"
        if not _starts_with_rows(context, operand):
            return f"the rows of {graph.type_of(operand)} are not the outer axis in memory"
    return None


def row_axis(context: GraphContext, position: int) -> Dim | None:
    """Return the size of the first axis of a node's result."""
    shape = context.node(position).types[0].shape
    return shape[0] if shape else None


def _starts_with_rows(context: GraphContext, value: Value) -> bool:
    """Return whether the views between a value and its buffer keep the rows in front."""
    rows = context.graph.type_of(value).shape[0]
    while not context.views.is_root(value):
        node = context.node(value.node)
        if isinstance(node.op, Transpose) or context.graph.type_of(value).shape[:1] != (rows,):
            return False
        value = node.operands[0]
    return context.graph.type_of(value).shape[:1] == (rows,)


def _find_pair(
    context: GraphContext, units: Sequence[Unit], related: Related, remarks: dict[str, None]
) -> tuple[int, int] | None:
    """Return two chains to join; note why related ones cannot."""
    needs = dependences(context, units)
    chains = sorted(
        (i for i, unit in enumerate(units) if unit.chain), key=lambda i: units[i].positions
    )
    for i, j in permutations(chains, 2):
        if related(context, units[i], units[j]):
            reason = _why_apart(context, units, needs, i, j)
            if reason is None:
                return i, j
            first, second = (print_node(context.graph, units[k].positions[-1]) for k in (i, j))
            remarks[f"@{context.graph.name}: not one launch: {first} | {second}: {reason}"] = None
    return None


def _reads(context: GraphContext, first: Unit, second: Unit) -> bool:
    """Return whether ``second`` reads a result of ``first``."""
    return any(
        not makers(context, operand).isdisjoint(first.positions)
        for position in second.positions
        for operand in context.node(position).operands
    )


def _shares_an_operand(context: GraphContext, first: Unit, second: Unit) -> bool:
    """Return whether both read one buffer that is no constant."""
    return first.positions < second.positions and not _buffers(context, first).isdisjoint(
        _buffers(context, second)
    )


def _buffers(context: GraphContext, unit: Unit) -> set[Value]:
    return {
        context.view(operand).root
        for position in unit.positions
        for operand in context.node(position).operands
        if operand.node not in context.constants
    }


def _why_apart(
    context: GraphContext, units: Sequence[Unit], needs: Sequence[set[int]], i: int, j: int
) -> str | None:
    rows = [row_axis(context, units[k].positions[0]) for k in (i, j)]
    if rows[0] != rows[1]:
        return f"{rows[0]} and {rows[1]} rows"
    for this, other in ((i, j), (j, i)):
        for between in needs[other] - {this}:
            if this in reachable(needs, between):
                position = units[between].positions[0]
                return f"{context.node(position).op.mnemonic} stands between them"
    return None
