"""A program as one graph that returns every value: calls copied in, recipes as nodes."""

from collections.abc import Mapping

from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops import Call, Input, Param
from ascendfx.ir.program import Program, expand_recipe


def flatten_program(program: Program) -> tuple[Graph, int]:
    """Return the graph and how many of its outputs, the first, are the program's own."""
    builder = GraphBuilder(program.name)

    def copy(graph: Graph, inputs: Mapping[str, Value], call: Call | None) -> list[Value]:
        moved: dict[Value, Value] = {}
        for position, node in enumerate(graph.nodes):
            operands = [moved[v] for v in node.operands]
            match node.op:
                case Input(name=name):
                    results = [inputs[name]] if call else [builder.add(node.op)]
                case Param():
                    results = [parameter(graph, node.op, call)]
                case Call(callee=callee):
                    body = program.by_name[callee]
                    arguments = dict(zip(body.input_types, operands, strict=True))
                    results = copy(body, arguments, node.op)
                case op:
                    results = list(builder.add_multi(op, *operands))
            moved |= {Value(position, i): each for i, each in enumerate(results)}
        return [moved[v] for v in graph.outputs]

    def parameter(graph: Graph, param: Param, call: Call | None) -> Value:
        recipe = expand_recipe(program, graph.name, param.name)
        if recipe is None:
            key = call.key_of(param.name) if call else param.name
            return builder.leaf(Param(key, param.type))
        return copy(Graph(graph.name, recipe.nodes, recipe.outputs), {}, call)[0]

    outputs = copy(program.main, {}, None)
    whole = builder.build()
    every = [Value(i, j) for i, node in enumerate(whole.nodes) for j in range(len(node.types))]
    return builder.build(*outputs, *every), len(outputs)
