"""One walk over a program for any kind of value: it follows calls, parameters and recipes."""

from abc import ABC, abstractmethod
from collections.abc import Mapping
from typing import Generic, TypeVar

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.ops.call import Call
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.param import Param
from ascendfx.ir.program import Program

T = TypeVar("T")


class Evaluator(ABC, Generic[T]):
    """Computes graphs of a program node by node; a subclass says what a value is.

    Attributes:
        program: Where called functions and recipes are looked up.
    """

    def __init__(self, program: Program) -> None:
        self.program = program

    @abstractmethod
    def step(self, node: Node, operands: tuple[T, ...]) -> tuple[T, ...]:
        """Return the results of a node that is no leaf and no call."""

    @abstractmethod
    def tensor(self, graph: Graph, key: str) -> T:
        """Return a tensor of the checkpoint that ``graph`` reads."""

    def call(self, op: Call, operands: tuple[T, ...]) -> tuple[T, ...]:
        """Return the results of a call."""
        body = self.program.by_name[op.callee]
        return self.run(body, dict(zip(body.input_types, operands, strict=True)), op)

    def weight(self, recipe: Graph, call: Call | None) -> T:
        """Return what a recipe makes for a call; by default it runs like any graph."""
        return self.run(recipe, {}, call)[0]

    def visit(self, graph: Graph, position: int, results: tuple[T, ...]) -> None:
        """Look at the results of a node; called after each."""

    def run(self, graph: Graph, inputs: Mapping[str, T], call: Call | None = None) -> tuple[T, ...]:
        """Return the outputs of a graph.

        Args:
            graph: A graph of the program, or a recipe under the name of its graph.
            inputs: A value for each input, by name.
            call: What calls the graph; None for the entry.
        """
        values: list[tuple[T, ...]] = []
        for position, node in enumerate(graph.nodes):
            operands = tuple(values[v.node][v.result] for v in node.operands)
            values.append(self._node(graph, node, operands, inputs, call))
            self.visit(graph, position, values[-1])
        return tuple(values[v.node][v.result] for v in graph.outputs)

    def _node(
        self,
        graph: Graph,
        node: Node,
        operands: tuple[T, ...],
        inputs: Mapping[str, T],
        call: Call | None,
    ) -> tuple[T, ...]:
        match node.op:
            case Input(name=name):
                return (inputs[name],)
            case Param(name=name):
                return (self._param(graph, name, call),)
            case Call():
                return self.call(node.op, operands)
            case _:
                return self.step(node, operands)

    def _param(self, graph: Graph, name: str, call: Call | None) -> T:
        recipe = self.program.recipes.get((graph.name, name))
        if recipe is None:
            return self.tensor(graph, call.key_of(name) if call else name)
        return self.weight(Graph(graph.name, recipe.nodes, recipe.outputs), call)
