"""Checks of what stands at the leaves of a program: parameters, constants, recipes of weights."""

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import Constant, Param
from ascendfx.ir.program import Program, param_names
from ascendfx.ir.tensor_type import TensorType

_DEEPEST = 100
"""Recipes of parameters of recipes; each step of serving adds one."""


def recipes_of(program: Program, owner: str) -> tuple[Graph, ...]:
    """Return the recipes of the parameters of a graph."""
    return tuple(recipe for (name, _), recipe in program.recipes.items() if name == owner)


def verify_leaves(owner: str, *graphs: Graph) -> None:
    """Check parameters and constants of a graph and of its recipes, which share names.

    Args:
        owner: Name of the graph.
        graphs: The graph and its recipes.

    Raises:
        GraphError: A parameter has two types, or a constant is no number of its format.
    """
    known: dict[str, TensorType] = {}
    for graph in graphs:
        for node in graph.nodes:
            if isinstance(node.op, Param):
                first = known.setdefault(node.op.name, node.op.type)
                if first != node.op.type:
                    raise GraphError(
                        "parameter-type",
                        f"the parameter `{node.op.name}` of @{owner} is {first} and {node.op.type}",
                        node.location,
                        hint="a name is one tensor: state one type, or rename one of them",
                    )
            if isinstance(node.op, Constant) and node.op.fault:
                raise GraphError(
                    "constant-value",
                    f"a constant of @{owner}: {node.op.fault}",
                    node.location,
                    hint="correct the number or its format",
                )


def verify_recipe_order(program: Program) -> None:
    """Check that no parameter is made of itself.

    Raises:
        GraphError: Recipes need each other in a circle, or hang on each other without end.
    """
    finished: set[tuple[str, str]] = set()

    def visit(key: tuple[str, str], path: tuple[str, ...]) -> None:
        recipe = program.recipes.get(key)
        if recipe is None or key in finished:
            return
        owner, name = key
        if name in path or len(path) == _DEEPEST:
            circle = ", ".join(f"`{each}`" for each in (*path[-3:], name))
            what = "are made of each other in a circle" if name in path else "hang on each other"
            raise GraphError(
                "recursion",
                f"recipes of @{owner} {what}: {circle}",
                recipe.nodes[0].location,
                hint="a recipe is made of parameters that the checkpoint has",
            )
        for each in param_names(recipe):
            visit((owner, each), (*path, name))
        finished.add(key)

    for key in program.recipes:
        visit(key, ())
