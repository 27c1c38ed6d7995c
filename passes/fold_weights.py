"""Move work on weights out of the step: a weight program, evaluated once, tensor by tensor."""

from dataclasses import dataclass, replace
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Constant, Input, Iota, Param
from ascendfx.ir.program import Program
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.rebuild import rebuild


@dataclass(frozen=True, slots=True)
class FoldWeights(ProgramPass):
    """Replaces what depends on parameters alone by one new parameter with a recipe.

    The recipe is evaluated in float64 and rounded once to the format of the value, so the result
    is at least as exact as computing it in every step.
    """

    name: ClassVar[str] = "fold-weights"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run(self, program: Program) -> PassResult:
        """Fold in every graph."""
        recipes = dict(program.recipes)
        graphs = tuple(_fold(graph, recipes) for graph in program.graphs)
        folded = len(recipes) - len(program.recipes)
        if not folded:
            return PassResult(program)
        return PassResult(Program(graphs, recipes).pruned(), {"weights folded": folded})


def _fold(graph: Graph, recipes: dict[tuple[str, str], Graph]) -> Graph:
    constant = _weight_only(graph)
    frontier = {
        value
        for position, node in enumerate(graph.nodes)
        if position not in constant
        for value in node.operands
        if value.node in constant
    } | {value for value in graph.outputs if value.node in constant}
    folded = {
        value: recipe
        for value in sorted(frontier)
        if not isinstance(graph.op_of(value), Param | Constant)
        and (recipe := graph.part((value,))).params
    }
    if not folded:
        return graph
    names: dict[Value, str] = {}
    for value, recipe in folded.items():
        names[value] = _name(graph, recipe, recipes)
        recipes[graph.name, names[value]] = replace(recipe, name=names[value])

    def emit(
        builder: GraphBuilder, position: int, _node: Node, _operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        value = Value(position)
        if value in folded:
            return (builder.leaf(Param(names[value], graph.type_of(value))),)
        return None

    return DropUnused().run_graph(rebuild(graph, emit)).graph


def _weight_only(graph: Graph) -> frozenset[int]:
    """Return the positions whose results depend on parameters and constants alone."""
    found: set[int] = set()
    for position, node in enumerate(graph.nodes):
        leaf = isinstance(node.op, Param | Constant) or (
            isinstance(node.op, Iota) and isinstance(node.op.size, int)
        )
        sized = any(kind.names for kind in node.types)
        inner = bool(node.operands) and all(v.node in found for v in node.operands)
        if (
            not sized
            and len(node.types) == 1
            and (leaf or inner)
            and not isinstance(node.op, Input)
        ):
            found.add(position)
    return frozenset(found)


def _name(graph: Graph, recipe: Graph, recipes: dict[tuple[str, str], Graph]) -> str:
    """Return a name that starts with the first parameter's and is free; equal recipes share it."""
    first = recipe.op_of(recipe.params[0])
    base = first.name.split("#")[0] if isinstance(first, Param) else "folded"
    count = 1
    while not _same(recipes.get((graph.name, f"{base}#{count}")), recipe):
        count += 1
    return f"{base}#{count}"


def _same(known: Graph | None, recipe: Graph) -> bool:
    return known is None or (known.nodes, known.outputs) == (recipe.nodes, recipe.outputs)
