"""Weights with transforms become parameters with recipes; nothing of a transform may stay."""

from collections.abc import Mapping

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Constant, Param
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.rebuild import rebuild
from ascendfx.quant_passes.migration.transform_name import is_transform_name, migrated_name


def fold_transforms(graph: Graph) -> tuple[Graph, Mapping[str, Graph]]:
    """Return the graph with migrated parameters, and how each is made: tensor by tensor, lazily.

    Raises:
        GraphError: `not-folded`: an operation of the step reads a transform, or a value that one
            was to be moved past.
    """
    constant = _weight_only(graph)
    names: dict[Value, str] = {}
    recipes: dict[str, Graph] = {}
    for position, node in enumerate(graph.nodes):
        for value in () if position in constant else node.operands:
            if value.node not in constant or value in names:
                continue
            recipe = graph.part((value,))
            leaves = [op.name for each in recipe.nodes if isinstance(op := each.op, Param)]
            if not any(map(is_transform_name, leaves)):
                continue
            originals = [name for name in leaves if not is_transform_name(name)]
            if not originals:
                raise _left(graph, node, leaves[0])
            names[value] = _name(recipe, originals, recipes)
            recipes[names[value]] = Graph(names[value], recipe.nodes, recipe.outputs)

    def emit(
        builder: GraphBuilder, position: int, _node: Node, _operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        value = Value(position)
        if value in names:
            return (builder.leaf(Param(names[value], graph.type_of(value))),)
        return None

    return DropUnused().run_graph(rebuild(graph, emit)).graph, recipes


def _left(graph: Graph, node: Node, transform: str) -> GraphError:
    reason = (
        f"`{transform}` cannot be folded: in @{graph.name} {node.op.mnemonic} is not between "
        "weights that could take it"
    )
    hint = "leave out this kind of place: no known rule moves a transform past the operation"
    return GraphError("not-folded", reason, node.location, hint=hint)


def _name(recipe: Graph, originals: list[str], taken: Mapping[str, Graph]) -> str:
    """Return a name by the parameter that the value is another form of; tied ones are counted."""
    kind = recipe.type_of(recipe.outputs[0])
    same = [
        op.name
        for node in recipe.nodes
        if isinstance(op := node.op, Param) and op.name in originals and op.type == kind
    ]
    base = (same or originals)[0]
    count = 1
    while (name := migrated_name(base, count)) in taken:
        count += 1
    return name


def _weight_only(graph: Graph) -> frozenset[int]:
    found: set[int] = set()
    for position, node in enumerate(graph.nodes):
        inner = bool(node.operands) and all(value.node in found for value in node.operands)
        if isinstance(node.op, Param | Constant) or inner:
            found.add(position)
    return frozenset(found)
