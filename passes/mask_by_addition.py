"""Bring masks that choose between a score and a lowest number into the form that adds."""

import math
from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Add, Call, Constant, Input, LogicalNot, Param, Select, Softmax
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.recognise_causal_mask import LOWEST


@dataclass(frozen=True, slots=True)
class MaskByAddition(GraphPass):
    """Rewrites ``softmax(stays ? x : c)`` into ``softmax(x + (stays ? 0 : c))``.

    With ``c = -inf`` both hide the same scores. A finite ``c``, at most the lowest number of the
    format, has weight zero beside any score that stays, but a row in which nothing stays would
    differ: a finite ``c`` is rewritten only if the choice depends on no tensor and leaves something
    in each row for 1 to 9 of whatever it counts. `RecogniseCausalMask` then looks closer.
    """

    name: ClassVar[str] = "mask-by-addition"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run_graph(self, graph: Graph) -> GraphResult:
        """Rewrite every masked softmax over the last axis."""
        count = 0

        def emit(
            builder: GraphBuilder, position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            nonlocal count
            if not _is_masked_by_choice(graph, position):
                return None
            count += 1
            added = _added(builder, *builder.operands_of(operands[0]))
            return (builder.add(node.op, added),)

        after = rebuild(graph, emit)
        if not count:
            return GraphResult(graph)
        return GraphResult(DropUnused().run_graph(after).graph, {"masks": count})


def _is_masked_by_choice(graph: Graph, position: int) -> bool:
    node = graph.nodes[position]
    if not isinstance(node.op, Softmax):
        return False
    (masked,) = node.operands
    if not isinstance(graph.op_of(masked), Select) or node.op.axis != node.types[0].rank - 1:
        return False
    choice, *branches = graph.nodes[masked.node].operands
    hidden = [i for i, each in enumerate(branches) if _lowest(graph, each) is not None]
    if len(hidden) != 1 or graph.type_of(branches[1 - hidden[0]]) != node.types[0]:
        return False
    lowest = _lowest(graph, branches[hidden[0]])
    return lowest == -math.inf or _something_stays(graph, choice, stays=hidden[0] == 1)


def _lowest(graph: Graph | GraphBuilder, value: Value) -> float | None:
    op = graph.op_of(value)
    if isinstance(op, Constant) and op.dtype in LOWEST and op.value <= LOWEST[op.dtype]:
        return float(op.value)
    return None


def _something_stays(graph: Graph, choice: Value, *, stays: bool) -> bool:
    alone = graph.part((choice,))
    if any(isinstance(node.op, Input | Param | Call) for node in alone.nodes):
        return False
    names = {name for node in alone.nodes for kind in node.types for name in kind.names}
    for size in range(1, 10):
        (seen,) = interpret(alone, {}, sizes=dict.fromkeys(names, size))
        if not (seen.astype(bool) == stays).any(axis=-1).all():
            return False
    return True


def _added(builder: GraphBuilder, choice: Value, first: Value, second: Value) -> Value:
    """Return the scores plus zero or the lowest number, as ``choice`` says."""
    hidden_first = _lowest(builder, first) is not None
    lowest, scores = (first, second) if hidden_first else (second, first)
    stays = builder.add(LogicalNot(), choice) if hidden_first else choice
    zero = builder.add(Constant(0.0, builder.type_of(scores).dtype))
    return builder.add(Add(), scores, builder.add(Select(), stays, zero, lowest))
