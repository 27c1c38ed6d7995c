"""The calls of a program's entry as programs of their own: a decoder layer is a file then."""

from collections.abc import Iterator

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.ops.call import Call
from ascendfx.ir.ops.param import Param
from ascendfx.ir.program import Program


def block_programs(program: Program) -> Iterator[tuple[str, Program]]:
    """Yield a name and a program for each call of the entry, in order.

    Its inputs are those of the function, its parameters named by the checkpoint keys of the call,
    codes and scales by that of their weight; the name is that of the function and the number of
    the call among those of the entry. So `to_onnx` writes a model layer by layer, each within what
    one ONNX file holds.

    Args:
        program: Of any stage.
    """
    calls = (node.op for node in program.main.nodes if isinstance(node.op, Call))
    for number, call in enumerate(calls):
        name = f"{call.callee}.{number}"
        main = _renamed(program.by_name[call.callee], name, call)
        recipes = {
            (name, _key(call, parameter)): _renamed(recipe, recipe.name, call)
            for (graph, parameter), recipe in program.recipes.items()
            if graph == call.callee
        }
        others = (graph for graph in program.graphs[1:] if graph.name != call.callee)
        yield name, Program((main, *others), {**program.recipes, **recipes}).pruned()


def _renamed(graph: Graph, name: str, call: Call) -> Graph:
    def of(node: Node) -> Node:
        if not isinstance(node.op, Param):
            return node
        op = Param(_key(call, node.op.name), node.op.type)
        return Node(op, node.operands, node.types, node.location)

    return Graph(name, tuple(map(of, graph.nodes)), graph.outputs)


def _key(call: Call, parameter: str) -> str:
    """Return the checkpoint key of a parameter; what is made of one is named behind its key."""
    keys = dict(call.keys)
    if parameter in keys:
        return keys[parameter]
    stem, mark, part = parameter.rpartition("#")
    return f"{keys.get(stem, stem)}{mark}{part}"
