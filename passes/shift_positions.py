"""The program that a draft layer in plain form is at other positions: for numeric checks."""

from dataclasses import replace

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.ops import Iota
from ascendfx.ir.program import Program
from ascendfx.passes.token_axis import counts_tokens


def shift_positions(program: Program, shift: int) -> Program:
    """Return a program in plain form whose first token stands at position ``shift``.

    Args:
        program: Positions are counts over the axis of tokens.
        shift: What is added to every position.
    """
    graphs = tuple(_shifted(graph, shift) for graph in program.graphs)
    return Program(graphs, program.recipes)


def _shifted(graph: Graph, shift: int) -> Graph:
    def moved(node: Node) -> Node:
        op = node.op
        if not isinstance(op, Iota) or not counts_tokens(op.size):
            return node
        return replace(node, op=replace(op, start=op.start + op.step * shift))

    return Graph(graph.name, tuple(map(moved, graph.nodes)), graph.outputs)
