"""A program that is wrong by half a step wherever another one rounds to codes."""

from dataclasses import dataclass, field, replace

import numpy as np

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Cast, Round
from ascendfx.ir.pointwise import Unary
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True, slots=True)
class HalfStep(Unary):
    """``y = a + 1/2`` or ``a - 1/2``, by chance: the largest error of a rounding.

    Attributes:
        random: Draws the signs.
    """

    random: np.random.Generator = field(compare=False)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Move each number."""
        (a,) = operands
        return (a + self.random.choice((-0.5, 0.5), a.shape),)


def with_half_steps(program: Program, seed: int) -> Program:
    """Return the program, to be interpreted only: types are those of the codes."""
    random = np.random.default_rng(seed)
    graphs = tuple(_moved(graph, random) for graph in program.graphs)
    recipes = {key: _moved(graph, random) for key, graph in program.recipes.items()}
    return Program(graphs, recipes)


def _moved(graph: Graph, random: np.random.Generator) -> Graph:
    return replace(graph, nodes=tuple(_node(node, random) for node in graph.nodes))


def _node(node: Node, random: np.random.Generator) -> Node:
    match node.op:
        case Round():
            return replace(node, op=HalfStep(random))
        case Cast(dtype=DType.I8):
            return replace(node, op=Cast(DType.F32))
        case _:
            return node
