"""Write a pass of your own, run it on a program in text form, and check that it keeps the numbers.

python examples/03_your_own_pass.py
"""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Multiply, Sigmoid, Silu
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.rebuild import rebuild

TEXT = """\
graph @gate {
  %0 = input "x" : f32[tokens, 8]
  %1 = sigmoid %0 : f32[tokens, 8]
  %2 = multiply %0, %1 : f32[tokens, 8]
  return %2
}
"""


@dataclass(frozen=True, slots=True)
class RecogniseSilu(GraphPass):
    """``x * sigmoid(x)  =  silu(x)``."""

    name: ClassVar[str] = "recognise-silu"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run_graph(self, graph: Graph) -> GraphResult:
        """Replace each product of a value and its own sigmoid."""
        found = 0

        def emit(
            builder: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            nonlocal found
            if not isinstance(node.op, Multiply):
                return None
            x, gate = node.operands
            if not isinstance(graph.op_of(gate), Sigmoid) or graph.nodes[gate.node].operands != (
                x,
            ):
                return None
            found += 1
            return (builder.add(Silu(), operands[0]),)

        after = rebuild(graph, emit)
        return GraphResult(after, {"recognised": found}) if found else GraphResult(graph)


def main() -> None:
    """Run the pass and compare both sides in float64."""
    before = parse_program(TEXT)
    after, runs = run_pipeline(before, [RecogniseSilu()])
    print(print_program(after))
    print({run.name: dict(run.statistics) for run in runs})
    x = np.random.default_rng(0).standard_normal((3, 8))
    difference = np.abs(interpret(before, {"x": x})[0] - interpret(after, {"x": x})[0])
    print(f"largest difference in float64: {difference.max():.1e}")


if __name__ == "__main__":
    main()
