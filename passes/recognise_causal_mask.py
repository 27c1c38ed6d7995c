"""Replace a mask that is computed from positions alone by the attribute it stands for."""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import product
from typing import ClassVar

import numpy as np
import sympy

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import Attention, Call, Constant, Input, Iota, Param, Slice
from ascendfx.ir.ops.attention import AttentionRoles
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.remark import Remark

LOWEST = {
    DType.F16: -65504.0,
    DType.BF16: -3.3895313892515355e38,
    DType.F32: -3.4028234663852886e38,
    DType.F64: -3.4028234663852886e38,
}
"""The lowest finite number of each format (f64: that of f32): masks use it in place of -inf."""

_SMALL = 10
_LARGEST = 600


@dataclass(frozen=True, slots=True)
class RecogniseCausalMask(GraphPass):
    """Evaluate masks that depend on nothing but sizes, and compare them with the causal mask.

    A mask is causal when for every tried number of tokens it is zero where token ``t`` may see
    token ``s <= t`` and at most the lowest finite number of its format elsewhere: such scores have
    weight zero in float32 as soon as a row has one visible token, which the diagonal is. Tried are
    1 to 9 tokens, and the neighbours of every number that stands in the computation of the mask,
    so that a window or a chunk of that size shows. A mask that holds a number above 600, that
    depends on a tensor, or that is another one, stays an operand and is remarked.
    """

    name: ClassVar[str] = "recognise-causal-mask"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run_graph(self, graph: Graph) -> GraphResult:
        """Drop the causal masks."""
        causal: dict[int, bool] = {}
        remarks: list[Remark] = []
        for position, node in enumerate(graph.nodes):
            if isinstance(node.op, Attention) and node.op.masked:
                reason = why_not_causal(graph, node.op.roles(node.operands))
                causal[position] = not reason
                if reason:
                    remarks.append(Remark(f"recognise-causal-mask: {reason}", node.location))
        if not any(causal.values()):
            return GraphResult(graph, {}, tuple(remarks))

        def emit(
            builder: GraphBuilder, position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            if not causal.get(position) or not isinstance(node.op, Attention):
                return None
            unmasked = node.op.roles(operands)._replace(mask=None)
            return builder.add_multi(
                replace(node.op, causal=True, masked=False), *unmasked.operands
            )

        after = DropUnused().run_graph(rebuild(graph, emit)).graph
        return GraphResult(after, {"masks recognised": sum(causal.values())}, tuple(remarks))


def why_not_causal(graph: Graph, attention: AttentionRoles[Value]) -> str:
    """Return why the mask of an attention cannot be dropped; "" if it is the causal mask."""
    if attention.mask is None:
        return "there is no mask"
    query, key = graph.type_of(attention.queries[0]), graph.type_of(attention.keys[0])
    tokens = query.shape[1]
    if tokens != key.shape[1]:
        return f"{tokens} tokens attend to {key.shape[1]}"
    alone = graph.part((attention.mask,))
    if any(isinstance(each.op, Input | Param | Call) for each in alone.nodes):
        return "the mask depends on a tensor"
    if isinstance(tokens, int):
        return _first_failure(alone, {tokens}, "")
    if not isinstance(tokens, sympy.Symbol):
        return f"the number of tokens is {tokens}, not one size"
    if reason := _first_failure(alone, set(range(1, _SMALL)), tokens.name):
        return reason
    numbers = _numbers(alone)
    if numbers and max(numbers) > _LARGEST:
        return f"the mask holds the number {max(numbers)}, too large to try"
    return _first_failure(alone, {n + i for n in numbers for i in range(3)}, tokens.name)


def _first_failure(mask: Graph, counts: set[int], tokens: str) -> str:
    """Return how the mask differs from the causal one for one of the numbers of tokens, or ""."""
    others = sorted(
        {name for node in mask.nodes for t in node.types for name in t.names} - {tokens}
    )
    for count in sorted(counts):
        for rest in product((1, 2), repeat=len(others) if count < _SMALL else 0):
            sizes = {**dict.fromkeys(others, 1), **dict(zip(others, rest, strict=False))}
            if reason := _difference(mask, {**sizes, tokens: count}, count):
                return f"with {count} tokens {reason}"
    return ""


def _numbers(graph: Graph) -> set[int]:
    """Return the integers above one that stand in the graph as constants or bounds."""
    found: set[float] = set()
    for node in graph.nodes:
        match node.op:
            case Constant(value=value, dtype=dtype) if not dtype.is_float or value > LOWEST[dtype]:
                found.add(abs(value))
            case Iota(start=start, step=step):
                found |= {abs(start), abs(step)}
            case Slice(start=start, stop=stop):
                found |= {abs(each) for each in (start, stop) if isinstance(each, int)}
            case _:
                pass
    return {math.ceil(each) for each in found if 1 < each < math.inf}


def _difference(graph: Graph, sizes: Mapping[str, int], tokens: int) -> str:
    (mask,) = interpret(graph, {}, sizes=sizes)
    lowest = LOWEST[graph.output_types[0].dtype]
    visible = np.tril(np.ones((tokens, tokens), bool))
    shown = np.broadcast_to(mask, (*mask.shape[:2], *visible.shape))
    wrong = np.where(visible, shown != 0, ~(shown <= lowest))
    if not wrong.any():
        return ""
    place = tuple(int(i) for i in np.argwhere(wrong)[0])
    return f"token {place[2]} adds {shown[place]} for token {place[3]}"
