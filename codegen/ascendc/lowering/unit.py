"""Nodes that one launch computes, and the order in which units can run."""

import heapq
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import CacheWrite, Input


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
    return isinstance(node.op, CacheWrite) or context.views.is_root(Value(position))


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
    return [
        {
            home[maker]
            for position in unit.positions
            for operand in context.node(position).operands
            for maker in makers(context, operand)
        }
        - {i}
        for i, unit in enumerate(units)
    ]


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
    """Return the units so that each follows what it needs; else in the order of the graph."""
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
        raise AssertionError("units never need each other in a circle")
    return ordered
