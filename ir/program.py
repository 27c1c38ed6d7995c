"""A program: the entry graph, the functions it calls, and how their weights are made."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property

from ascendfx.ir.graph import Graph
from ascendfx.ir.ops.call import Call


@dataclass(frozen=True)
class Program:
    """Graphs that call each other; repeated layers are one graph with a table of parameters.

    Attributes:
        graphs: The entry first, then every function exactly once.
        recipes: Weight program: how a parameter of a function is computed from other parameters
            of the same function. Keys are ``(graph name, parameter name)``; a recipe is a graph
            of `Param` leaves with one output, evaluated lazily, tensor by tensor.
    """

    graphs: tuple[Graph, ...]
    recipes: Mapping[tuple[str, str], Graph] = field(default_factory=dict[tuple[str, str], Graph])

    @property
    def name(self) -> str:
        """The name of the entry graph."""
        return self.main.name

    @property
    def main(self) -> Graph:
        """The entry graph."""
        return self.graphs[0]

    @cached_property
    def by_name(self) -> dict[str, Graph]:
        """Each graph by its name."""
        return {graph.name: graph for graph in self.graphs}

    def map_graphs(self, transform: Callable[[Graph], Graph]) -> "Program":
        """Return the program with every graph transformed; unused functions and recipes go."""
        return replace(self, graphs=tuple(map(transform, self.graphs))).pruned()

    def pruned(self) -> "Program":
        """Return the program without functions that nobody calls and recipes nobody needs."""
        called = {self.main.name}
        pending = [self.main]
        while pending:
            for node in pending.pop().nodes:
                if isinstance(node.op, Call) and node.op.callee not in called:
                    called.add(node.op.callee)
                    pending.append(self.by_name[node.op.callee])
        graphs = tuple(graph for graph in self.graphs if graph.name in called)
        wanted = {
            (graph.name, graph.nodes[v.node].op.name)  # pyright: ignore[reportAttributeAccessIssue]
            for graph in graphs
            for v in graph.params
        }
        recipes = {key: recipe for key, recipe in self.recipes.items() if key in wanted}
        if len(graphs) == len(self.graphs) and recipes.keys() == self.recipes.keys():
            return self
        return Program(graphs, recipes)
