"""Checks of a whole program that no single node can make."""

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.ops.call import Call
from ascendfx.ir.program import Program
from ascendfx.ir.verify_leaves import recipes_of, verify_leaves, verify_recipe_order

_DEEPEST = 100
"""Calls inside calls; a captured model has one level, its layers."""


def verify_program(program: Program) -> None:
    """Check values, names, calls and recipes.

    Raises:
        GraphError: A value is not there or is made later, two graphs share a name, an input name
            stands twice, a parameter has two types, a constant is no number of its format, a call
            does not fit its callee, functions or recipes need each other in a circle, or a recipe
            does not make its parameter.
    """
    verify_values(program)
    if len(program.by_name) != len(program.graphs):
        raise GraphError(
            "duplicate-graph",
            "two graphs of the program have the same name",
            hint="rename one of them",
        )
    verify_recipe_order(program)
    for graph in program.graphs:
        verify_leaves(graph.name, graph, *recipes_of(program, graph.name))
        if len(graph.input_types) != len(graph.inputs):
            raise GraphError(
                "duplicate-input",
                f"graph @{graph.name} has two inputs of one name",
                hint="rename one of them",
            )
        for node in graph.nodes:
            if isinstance(node.op, Call):
                _verify_call(program, graph, node, node.op)
    _verify_order(program)
    for (owner, name), recipe in program.recipes.items():
        _verify_recipe(program, owner, name, recipe)


def verify_values(program: Program, *, made_by: str = "") -> None:
    """Check that every operand stands before the node that reads it, and that outputs exist.

    `GraphBuilder` and the parser cannot make another graph; a pass that builds nodes itself can.

    Args:
        program: Graphs and recipes are checked.
        made_by: Who is to blame, such as ``"pass `simplify`"``; stands first in the message.

    Raises:
        GraphError: A value names a node or a result that is not there, or a later node.
    """
    blame = f"{made_by}: " if made_by else ""
    graphs = [(f"@{graph.name}", graph) for graph in program.graphs]
    graphs += [(f"recipe @{owner} `{name}`", g) for (owner, name), g in program.recipes.items()]
    for title, graph in graphs:
        for position, node in enumerate(graph.nodes):
            for operand in node.operands:
                if fault := _fault(graph, operand, position):
                    raise GraphError(
                        code="value-index",
                        reason=f"{blame}in {title}, node %{position} reads {fault}",
                        location=node.location,
                        excerpt=f"%{position} = {node.op.mnemonic}",
                        hint=_VALUE_HINT,
                    )
        for output in graph.outputs:
            if fault := _fault(graph, output, len(graph.nodes)):
                raise GraphError(
                    code="value-index",
                    reason=f"{blame}{title} returns {fault}",
                    hint=_VALUE_HINT,
                )


_VALUE_HINT = "build graphs with `GraphBuilder`, whose values are those of the new graph"


def _fault(graph: Graph, value: Value, end: int) -> str:
    """Return what is wrong with a value that a reader at position ``end`` uses; empty if right."""
    node, result = value
    shown = f"({node}, {result})"
    if not 0 <= node < len(graph.nodes):
        return f"{shown}, the graph has {len(graph.nodes)} nodes"
    if node >= end:
        return f"{shown}, which stands behind it"
    count = len(graph.nodes[node].types)
    if not 0 <= result < count:
        return f"{shown}, node %{node} has {count} result{'s' * (count != 1)}"
    return ""


def _verify_call(program: Program, graph: Graph, node: Node, call: Call) -> None:
    callee = program.by_name.get(call.callee)
    if callee is None:
        raise GraphError(
            "unknown-graph",
            f"no graph is called @{call.callee}",
            node.location,
            hint="the program must hold every graph that it calls",
        )
    given = [str(graph.type_of(value)) for value in node.operands]
    wanted = [str(kind) for kind in callee.input_types.values()]
    returned = [str(kind) for kind in callee.output_types]
    if given != wanted or [str(kind) for kind in call.types] != returned:
        raise GraphError(
            code="call-type",
            reason=f"the call of @{call.callee} passes {', '.join(given)} and expects "
            f"{', '.join(map(str, call.types))}; it takes {', '.join(wanted)} and "
            f"returns {', '.join(returned)}",
            location=node.location,
            hint="make types of the call and of the callee equal",
        )
    known = {name for name, _ in call.keys}
    missing = sorted(
        name
        for name in program.params_behind(callee) - known
        if (callee.name, name) not in program.recipes
    )
    if missing:
        raise GraphError(
            code="unbound-parameter",
            reason=f"the call of @{call.callee} names no checkpoint key for `{missing[0]}`",
            location=node.location,
            hint="add the pair of formal name and checkpoint key to `keys`",
        )


def _verify_order(program: Program) -> None:
    finished: set[str] = set()
    path: list[str] = []

    def visit(name: str) -> None:
        if name in path:
            raise GraphError(
                "recursion",
                f"graphs call each other in a circle: {name}",
                hint="write one of them out where it is called",
            )
        if len(path) == _DEEPEST:
            raise GraphError(
                "recursion",
                f"calls are nested more than {_DEEPEST} deep: {name}",
                hint="write some of them out where they are called",
            )
        if name in finished:
            return
        path.append(name)
        for node in program.by_name[name].nodes:
            if isinstance(node.op, Call):
                visit(node.op.callee)
        finished.add(path.pop())

    for graph in program.graphs:
        visit(graph.name)


def _verify_recipe(program: Program, owner: str, name: str, recipe: Graph) -> None:
    graph = program.by_name.get(owner)
    if graph is None or len(recipe.outputs) != 1 or recipe.inputs:
        raise GraphError(
            "recipe",
            f"the recipe of `{name}` in @{owner} is not a weight program",
            hint="a recipe has parameters only, and one output",
        )
    kinds = {str(graph.type_of(v)) for v in graph.params if graph.op_of(v).name == name}  # pyright: ignore[reportAttributeAccessIssue]
    made = str(recipe.output_types[0])
    if kinds and kinds != {made}:
        raise GraphError(
            "recipe",
            f"the recipe of `{name}` in @{owner} makes {made}, not {kinds}",
            hint="make its output of the type of the parameter",
        )
