"""Which nodes are wanted for chosen rows alone, told across calls."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops import Call, GatherRows, Input
from ascendfx.ir.program import Program
from ascendfx.passes.drop_batch_axis import ROWS
from ascendfx.passes.row_wise import HEAVY, RowWise
from ascendfx.passes.serving_signature import REQUESTS

GIVEN = Value(-1)
"""Stands for the rows that the caller of a function chooses."""

Results = tuple[bool | None, ...]
"""For each result of a function: whether chosen rows are enough; None: nobody reads it."""


@dataclass(frozen=True)
class Choice:
    """What a graph computes for chosen rows alone.

    Attributes:
        nodes: Position of each such node, and the numbers of the rows: a value of the graph, or
            `GIVEN`.
        calls: The same for calls, with what is wanted of the results.
        inputs: For each input, whether just the given rows of it are read.
        live: Positions of all nodes that are needed.
    """

    nodes: Mapping[int, Value]
    calls: Mapping[int, tuple[Value, Results]]
    inputs: tuple[bool, ...]
    live: frozenset[int]


def chooses(graph: Graph, node: Node) -> bool:
    """Return whether a node takes one row of each request."""
    if not isinstance(node.op, GatherRows):
        return False
    table, ids = map(graph.type_of, node.operands)
    return table.shape[0] == ROWS and ids.shape == (REQUESTS,)


class FindChoices:
    """Finds what each function of a program computes for chosen rows alone."""

    def __init__(self, program: Program) -> None:
        self._program = program
        self._rows = {graph.name: RowWise(graph) for graph in program.graphs}
        self._known: dict[tuple[str, Results], Choice] = {}

    def of(self, name: str, results: Results) -> Choice:
        """Return it for a function of which ``results`` are wanted."""
        key = name, results
        if key not in self._known:
            banned: set[int] = set()
            while (choice := self._try(name, results, banned)) is None:
                pass
            self._known[key] = choice
        return self._known[key]

    def rows_of(self, name: str) -> RowWise:
        """Return how the nodes of a function treat rows."""
        return self._rows[name]

    def _try(self, name: str, results: Results, banned: set[int]) -> Choice | None:
        """Return the choice; None if pairs of some dispatch must stay complete, now ``banned``."""
        graph, rows = self._program.by_name[name], self._rows[name]
        wanted = _Wanted(graph, results)
        nodes: dict[int, Value] = {}
        calls: dict[int, tuple[Value, Results]] = {}
        for position, node in reversed(list(enumerate(graph.nodes))):
            if not wanted.of_node(position, node):
                continue
            ids = wanted.chosen(position, node)
            own: Sequence[int] | None = None
            if chooses(graph, node):
                ids, own = node.operands[1], (0,)
            elif isinstance(node.op, Call):
                ids, own = self._call(graph, position, wanted, calls)
            elif ids is not None:
                own = _row_operands(rows, position, banned)
                if own is not None:
                    nodes[position] = ids
            for i, operand in enumerate(node.operands):
                wanted.add(operand, ids if i in (own or ()) else None)
        broken = {
            origin
            for value, origin in rows.dispatch.items()
            if value in wanted.by_value and nodes.get(value.node) != nodes.get(origin, GIVEN)
        }
        if not broken <= banned:
            banned |= broken
            return None
        inputs = tuple(wanted.by_value.get(value) == GIVEN for value in graph.inputs)
        _leave_light_ones(rows, nodes, calls, inputs)
        live = frozenset(v.node for v in wanted.by_value)
        return Choice(nodes, calls, inputs, live)

    def _call(
        self,
        graph: Graph,
        position: int,
        wanted: "_Wanted",
        calls: dict[int, tuple[Value, Results]],
    ) -> tuple[Value | None, Sequence[int]]:
        """Return the chosen rows and the inputs of which they are enough; note such a call."""
        node = graph.nodes[position]
        values = [Value(position, i) for i in range(len(node.types))]
        choices = {wanted.by_value.get(v) for v in values} - {None}
        ids = choices.pop() if len(choices) == 1 else None
        if ids is None or not _is_known(ids, position) or not isinstance(node.op, Call):
            return None, ()
        flags = tuple(wanted.by_value[v] == ids if v in wanted.by_value else None for v in values)
        inside = self.of(node.op.callee, flags)
        if not inside.nodes and not inside.calls:
            return None, ()
        calls[position] = ids, flags
        return ids, [i for i, chosen in enumerate(inside.inputs) if chosen]


def _row_operands(rows: RowWise, position: int, banned: set[int]) -> Sequence[int] | None:
    """Return the operands of which chosen rows are enough if those of the results are; or None."""
    values = (Value(position), *rows.graph.nodes[position].operands)
    if any(rows.dispatch.get(value) in banned for value in values):
        return None
    return rows.row_operands(position)


def _is_known(ids: Value, position: int) -> bool:
    return ids == GIVEN or ids.node < position


class _Wanted:
    """Of which rows each value is wanted: the numbers of the rows, or None for all of them."""

    def __init__(self, graph: Graph, results: Results) -> None:
        self.by_value: dict[Value, Value | None] = {}
        for value, chosen in zip(graph.outputs, results, strict=True):
            if chosen is not None:
                self.add(value, GIVEN if chosen else None)

    def add(self, value: Value, ids: Value | None) -> None:
        same = self.by_value.get(value, ids) == ids
        self.by_value[value] = ids if same else None

    def of_node(self, position: int, node: Node) -> bool:
        return any(Value(position, i) in self.by_value for i in range(len(node.types)))

    def chosen(self, position: int, node: Node) -> Value | None:
        """Return the rows that are enough of all results of a node; they are known before it."""
        values = (Value(position, i) for i in range(len(node.types)))
        ids = {self.by_value[v] for v in values if v in self.by_value}
        found = ids.pop() if len(ids) == 1 else None
        known = found is not None and _is_known(found, position)
        return found if known and not isinstance(node.op, Input) else None


def _leave_light_ones(
    rows: RowWise,
    nodes: dict[int, Value],
    calls: Mapping[int, tuple[Value, Results]],
    inputs: Sequence[bool],
) -> None:
    """Drop nodes for which rows of several operands had to be chosen to save next to nothing."""
    graph = rows.graph
    chosen = {value for value, own in zip(graph.inputs, inputs, strict=True) if own}
    for position, node in enumerate(graph.nodes):
        results = [Value(position, i) for i in range(len(node.types))]
        if position in calls:
            flags = calls[position][1]
            chosen.update(v for v, flag in zip(results, flags, strict=True) if flag)
        if position not in nodes:
            continue
        own = {node.operands[i] for i in rows.row_operands(position) or ()}
        if len(own) > 1 and not own & chosen and not isinstance(node.op, HEAVY):
            del nodes[position]
        else:
            chosen.update(results)
