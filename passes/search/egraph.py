"""Nodes that exist once, and which of their values are equal: the e-graph as Python sees it."""

from collections.abc import Mapping

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.passes.simplifications import SIMPLIFICATIONS

Ancestry = Mapping[str, int]
"""How often each rule was applied to its own results on the way to a node."""

_ORIGINAL: Ancestry = {}


class EGraph(GraphBuilder):
    """A builder in which a node is added once and values can be declared equal.

    The oldest value of a class stands for it. A new node is simplified at once, and equal to what
    it simplifies to.
    """

    def __init__(self, name: str) -> None:
        super().__init__(name)
        self._places: dict[tuple[Op, tuple[Value, ...]], int] = {}
        self._parents: dict[Value, Value] = {}
        self._ancestry: list[Ancestry] = []
        self._making: Ancestry = _ORIGINAL
        self.new_nodes: list[int] = []
        """Positions added since they were last taken."""
        self.new_unions: list[tuple[Value, Value]] = []
        """Values declared equal since they were last taken."""

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self._nodes)

    @property
    def nodes(self) -> tuple[Node, ...]:
        """Every node, as it was added."""
        return tuple(self._nodes)

    def find(self, value: Value) -> Value:
        """Return the value that stands for the class of ``value``."""
        root = value
        while root in self._parents:
            root = self._parents[root]
        while value != root:
            self._parents[value], value = root, self._parents[value]
        return root

    def add_multi(self, op: Op, *operands: Value) -> tuple[Value, ...]:
        """Return the results of the one node with this operation and equal operands.

        Raises:
            GraphError: The operand types break the operation's rule.
        """
        operands = tuple(map(self.find, operands))
        known = self._places.get((op, operands))
        if known is not None:
            return self._results(known)
        results = super().add_multi(op, *operands)
        position = results[0].node
        self._places[op, operands] = position
        self._ancestry.append(self._making)
        self.new_nodes.append(position)
        for simplification in SIMPLIFICATIONS.get(type(op), ()):
            simpler = simplification(self, op, operands)
            if simpler is not None:
                self.equate(results[0], simpler, "simplify")
                break
        return self._results(position)

    def _results(self, position: int) -> tuple[Value, ...]:
        count = len(self._nodes[position].types)
        return tuple(self.find(Value(position, i)) for i in range(count))

    def place_of(self, op: Op, operands: tuple[Value, ...]) -> int | None:
        """Return the oldest node with this operation and equal operands."""
        return self._places.get((op, tuple(map(self.find, operands))))

    def equate(self, left: Value, right: Value, rule: str) -> bool:
        """Declare two values equal; return whether that is news.

        Raises:
            GraphError: Their types differ, which is a mistake of the rule.
        """
        if self.type_of(left) != self.type_of(right):
            raise GraphError(
                code="rule-changes-type",
                reason=f"rule `{rule}` equates {self.type_of(left)} with {self.type_of(right)}",
                location=self._nodes[left.node].location,
                hint="both sides of a rule must have the same type; `ascendfx.rules.check` says so",
            )
        first, second = sorted((self.find(left), self.find(right)))
        if first == second:
            return False
        self._parents[second] = first
        self.new_unions.append((first, second))
        return True

    def adopt(self, canonical: Mapping[Value, Value]) -> None:
        """Take over which value stands for which class, and find equal nodes anew."""
        self._parents = {value: first for value, first in canonical.items() if value != first}
        self._places = {}
        for position, node in enumerate(self._nodes):
            key = (node.op, tuple(map(self.find, node.operands)))
            self._places.setdefault(key, position)

    def ancestry_of(self, positions: frozenset[int]) -> Ancestry:
        """Return, for each rule, the longest chain among the nodes at some positions."""
        longest: dict[str, int] = {}
        for position in positions:
            for rule, count in self._ancestry[position].items():
                longest[rule] = max(count, longest.get(rule, 0))
        return longest

    def set_ancestry(self, ancestry: Ancestry) -> None:
        """Give the nodes that are added from now on this ancestry."""
        self._making = ancestry

    def snapshot(self) -> Graph:
        """Return the nodes as a graph in which every operand is the value of its class."""
        nodes = tuple(
            Node(node.op, tuple(map(self.find, node.operands)), node.types, node.location)
            for node in self._nodes
        )
        return Graph(self._name, nodes, ())


def egraph_of(graph: Graph) -> tuple[EGraph, dict[Value, Value]]:
    """Return the nodes of a graph, and for each of its values the one that stands for it."""
    egraph = EGraph(graph.name)
    moved: dict[Value, Value] = {}
    for position, node in enumerate(graph.nodes):
        with egraph.at(node.location):
            results = egraph.add_multi(node.op, *(moved[v] for v in node.operands))
        moved.update((Value(position, i), result) for i, result in enumerate(results))
    return egraph, moved
