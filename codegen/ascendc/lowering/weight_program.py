"""Constants of a graph as recipes over checkpoint keys, one per use of the graph."""

import hashlib
from collections.abc import Mapping
from dataclasses import replace

from ascendfx.codegen.ascendc.lowering.view import storage_dtype
from ascendfx.codegen.ascendc.weight_spec import WeightSpec
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Param
from ascendfx.ir.program import Program
from ascendfx.ir.text.printer import print_graph

_DIGITS = 8


def recipe_of(program: Program, graph: Graph, value: Value) -> Graph:
    """Return how ``value`` follows from the formal parameters of ``graph``.

    Recipes of the program are written out, so that only checkpoint tensors remain as parameters.
    """
    builder = GraphBuilder("recipe")
    return builder.build(_copy(builder, program, (graph.name, graph), value, {}))


def _copy(
    builder: GraphBuilder,
    program: Program,
    source: tuple[str, Graph],
    value: Value,
    moved: dict[Value, Value],
) -> Value:
    """Append ``value`` of a graph, or of a recipe that belongs to the graph of that name."""
    name, graph = source
    for position in sorted(graph.needed((value,))):
        node = graph.nodes[position]
        recipe = program.recipes.get((name, node.op.name)) if isinstance(node.op, Param) else None
        if recipe is not None:
            moved[Value(position)] = _copy(builder, program, (name, recipe), recipe.outputs[0], {})
            continue
        operands = tuple(moved[v] for v in node.operands)
        if isinstance(node.op, Param):
            moved[Value(position)] = builder.leaf(node.op)
        else:
            moved[Value(position)] = builder.add(node.op, *operands)
    return moved[value]


def weight_spec(
    recipe: Graph, *, name: str, layout: str, keys: Mapping[str, str] | None
) -> WeightSpec:
    """Return one weight.

    Args:
        recipe: Over formal parameters, see `recipe_of`.
        name: What the weight is, unique among uses of one graph.
        layout: ``nd`` or ``nz``.
        keys: Checkpoint key of each formal parameter; None in the entry graph, where they agree.
    """
    bound = recipe if keys is None else _bind(recipe, keys)
    node = bound.nodes[bound.outputs[0].node]
    kind = node.types[0]
    shape = tuple(size for size in kind.shape if isinstance(size, int))
    if len(shape) != kind.rank:
        raise AssertionError("a constant has no named sizes")
    if isinstance(node.op, Param):
        shown = node.op.name
    else:
        digest = hashlib.sha256(print_graph(bound).encode()).hexdigest()
        shown = f"{name.split('#', maxsplit=1)[0]}#{digest[:_DIGITS]}"
    suffix = "" if layout == "nd" else f"@{layout}"
    return WeightSpec(f"{shown}{suffix}", bound, storage_dtype(kind.dtype), layout, shape)


def _bind(recipe: Graph, keys: Mapping[str, str]) -> Graph:
    return replace(recipe, nodes=tuple(_bind_node(node, keys) for node in recipe.nodes))


def _bind_node(node: Node, keys: Mapping[str, str]) -> Node:
    if not isinstance(node.op, Param):
        return node
    return replace(node, op=replace(node.op, name=keys[node.op.name]))
