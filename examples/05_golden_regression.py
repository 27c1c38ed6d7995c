"""Freeze what a model compiles to, and see what a changed pass does to it.

python examples/05_golden_regression.py [FOLDER]
"""

import sys
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

import ascendfx
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Add
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild
from ascendfx.runtime.golden.check_golden import check_golden
from ascendfx.runtime.golden.make_golden import Subject
from ascendfx.runtime.golden.record_golden import record_golden


@dataclass(frozen=True, slots=True)
class ExchangeSummands(GraphPass):
    """``a + b  =  b + a``: other programs, the same numbers."""

    name: ClassVar[str] = "exchange-summands"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run_graph(self, graph: Graph) -> GraphResult:
        """Exchange the operands of each sum of equal types."""

        def emit(
            b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            same = isinstance(node.op, Add) and b.type_of(operands[0]) == b.type_of(operands[1])
            return (b.add(node.op, operands[1], operands[0]),) if same else None

        return GraphResult(rebuild(graph, emit))


def tell(what: str) -> None:
    """Say what is going on; what is printed on standard output is the result."""
    print(what, file=sys.stderr, flush=True)


def main(folder: Path) -> None:
    """Record, compare, and compare again with one pass more."""
    golden = folder / "golden"
    model = ascendfx.bundled_model()
    tell("compiling the bundled model three times: a minute or more")
    if not golden.exists():  # the second time: what the first one recorded
        record_golden(Subject(model), golden)
    print(f"as recorded: {not check_golden(golden).changes}")
    changed = check_golden(golden, lambda _: Subject(model, passes=(ExchangeSummands(),)))
    print("\n".join(line for line in changed.lines if not line.startswith(" ")))


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch))
