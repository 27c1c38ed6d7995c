"""A program: the entry graph, the functions it calls, and how their weights are made."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops.call import Call
from ascendfx.ir.ops.param import Param


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
        wanted = {(graph.name, name) for graph in graphs for name in self.params_behind(graph)}
        recipes = {key: recipe for key, recipe in self.recipes.items() if key in wanted}
        if len(graphs) == len(self.graphs) and recipes.keys() == self.recipes.keys():
            return self
        return Program(graphs, recipes)

    def params_behind(self, graph: Graph) -> frozenset[str]:
        """Return the parameters that a graph reads and, through recipes, those they are made of."""
        found: set[str] = set()
        pending = list(param_names(graph))
        while pending:
            name = pending.pop()
            if name not in found:
                found.add(name)
                recipe = self.recipes.get((graph.name, name))
                pending += param_names(recipe) if recipe else ()
        return frozenset(found)


def param_names(graph: Graph) -> tuple[str, ...]:
    """Return the names of the parameters that a graph or a recipe reads, in order."""
    return tuple(node.op.name for node in graph.nodes if isinstance(node.op, Param))


def expand_recipe(program: Program, graph: str, name: str) -> Graph | None:
    """Return the recipe of a parameter in terms of parameters without recipes, or None.

    Args:
        program: Holds the recipes.
        graph: The function that reads the parameter.
        name: Formal name of the parameter.
    """
    recipe = program.recipes.get((graph, name))
    if recipe is None:
        return None
    builder = GraphBuilder(f"{graph}.{name}")
    return builder.build(_splice(program, graph, recipe, builder))


def _splice(program: Program, graph: str, recipe: Graph, builder: GraphBuilder) -> Value:
    moved: dict[Value, Value] = {}
    for position, node in enumerate(recipe.nodes):
        inner = program.recipes.get((graph, node.op.name)) if isinstance(node.op, Param) else None
        with builder.at(node.location):
            if inner is not None:
                moved[Value(position)] = _splice(program, graph, inner, builder)
            elif isinstance(node.op, Param):
                moved[Value(position)] = builder.leaf(node.op)
            else:
                moved[Value(position)] = builder.add(node.op, *(moved[v] for v in node.operands))
    return moved[recipe.outputs[0]]
