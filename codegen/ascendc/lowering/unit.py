"""Nodes that one launch computes, and the order in which units can run."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import CacheRead, Input
from ascendfx.ir.text.printer import print_node


@dataclass(frozen=True, slots=True)
class Unit:
    """One launch, or one call.

    Attributes:
        positions: Its nodes, ascending.
        chain: Whether a vector chain computes it.
    """

    positions: tuple[int, ...]
    chain: bool = False


def is_computed(context: GraphContext, position: int) -> bool:
    """Return whether a node needs a launch: it is no leaf, no constant and no mere view."""
    node = context.node(position)
    if position in context.constants or isinstance(node.op, Input):
        return False
    return bool(node.op.in_place) or context.views.is_root(Value(position))


def makers(context: GraphContext, value: Value) -> frozenset[int]:
    """Return the computed nodes whose launches must be over before ``value`` can be read."""
    position = value.node
    node = context.node(position)
    if is_computed(context, position):
        return frozenset({position})
    if position in context.constants or not node.operands:
        return frozenset()
    return makers(context, node.operands[0])


def dependences(context: GraphContext, units: Sequence[Unit]) -> list[set[int]]:
    """Return for each unit the indices of the units it needs."""
    home = {position: i for i, unit in enumerate(units) for position in unit.positions}
    before = old_readers(context)
    needs: list[set[int]] = []
    for i, unit in enumerate(units):
        made = {
            home[maker]
            for position in unit.positions
            for operand in context.node(position).operands
            for maker in makers(context, operand)
        }
        read = {home[each] for position in unit.positions for each in before.get(position, ())}
        needs.append((made | read) - {i})
    return needs


def old_readers(context: GraphContext) -> Mapping[int, set[int]]:
    """Return for each node that overwrites memory the other nodes that read what it held."""
    writers = [
        position
        for position, node in enumerate(context.graph.nodes)
        if node.op.in_place and position not in context.constants
    ]
    if not writers:
        return {}
    readers: dict[Value, set[int]] = {}
    for position, node in enumerate(context.graph.nodes):
        for operand in node.operands if is_computed(context, position) else ():
            readers.setdefault(contents(context, operand), set()).add(position)
    return {
        position: {each for value in _held(context, position) for each in readers[value]}
        - {position}
        for position in writers
    }


def contents(context: GraphContext, value: Value) -> Value:
    """Return the value whose elements ``value`` looks at: itself if it is no view.

    A node that overwrites makes new contents in old memory. Rows read from a cache are not moved
    where attention finds them by itself, so they count as a view; so do numbers made of codes.
    """
    if value.node in context.cached_codes:
        return contents(context, context.cached_codes[value.node].codes)
    node = context.node(value.node)
    looks = not is_computed(context, value.node) or isinstance(node.op, CacheRead)
    if looks and node.operands and value.node not in context.constants:
        return contents(context, node.operands[0])
    return value


def reachable(needs: Sequence[set[int]], start: int) -> set[int]:
    """Return every unit that ``start`` needs, directly or not."""
    found: set[int] = set()
    pending = [start]
    while pending:
        for each in needs[pending.pop()] - found:
            found.add(each)
            pending.append(each)
    return found


def order_units(context: GraphContext, units: Sequence[Unit]) -> list[Unit]:
    """Return the units so that each follows what it needs; else in the order of the graph.

    Raises:
        GraphError: What one overwrites would have to be read after it.
    """
    needs = dependences(context, units)
    users: Mapping[int, list[int]] = {i: [] for i in range(len(units))}
    for i, needed in enumerate(needs):
        for each in needed:
            users[each].append(i)
    waiting = [len(needed) for needed in needs]
    ready = [(unit.positions[0], i) for i, unit in enumerate(units) if not waiting[i]]
    heapq.heapify(ready)
    ordered: list[Unit] = []
    while ready:
        _, i = heapq.heappop(ready)
        ordered.append(units[i])
        for user in users[i]:
            waiting[user] -= 1
            if not waiting[user]:
                heapq.heappush(ready, (units[user].positions[0], user))
    if len(ordered) != len(units):
        left = {each for i, unit in enumerate(units) if waiting[i] for each in unit.positions}
        raise _read_afterwards(context, min(left & old_readers(context).keys()))
    returned = {contents(context, value) for value in context.graph.outputs}
    for position in old_readers(context):
        if not returned.isdisjoint(_held(context, position)):
            raise _read_afterwards(context, position)
    return ordered


def _held(context: GraphContext, position: int) -> list[Value]:
    """Return the contents that a node overwrites."""
    node = context.node(position)
    return [contents(context, node.operands[i]) for i in node.op.in_place.values()]


def _read_afterwards(context: GraphContext, position: int) -> GraphError:
    return GraphError(
        code="cache-read-after-write",
        reason="memory is written in place, but its old contents are used afterwards",
        location=context.node(position).location,
        excerpt=print_node(context.graph, position),
        hint="read what this node returns instead",
    )
