"""Choose rows once instead of choosing among chosen ones."""

from typing import Any

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import DispatchExperts, Expand, GatherRows, Reshape
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Proof, Rule, SideBuilder, Spelling


def _twice(b: SideBuilder, h: Any, table: Value, first: Value, second: Value) -> Value:
    return b.add(GatherRows(), b.add(GatherRows(), table, first), second)


def _once(b: GraphBuilder, h: Any, table: Value, first: Value, second: Value) -> Value:
    return b.add(GatherRows(), table, b.add(GatherRows(), first, second))


RULE = Rule(
    name="gather-of-gather",
    identity="(x[i])[j]  =  x[i[j]]",
    source="composition of maps is associative",
    operands={"table": "n k", "first": "index: m", "second": "other: l"},
    spellings=(Spelling(_twice),),
    rhs=_once,
    fidelity=Fidelity.BITWISE,
    holes=lambda _: {"index": DType.I32, "other": DType.I64},
    below={"first": "n", "second": "m"},
    proof=Proof.EXHAUSTIVE,
)


def _there_and_back(b: SideBuilder, h: Any, x: Value, ids: Value) -> Value:
    source, place, _ = b.add_multi(DispatchExperts(h.experts), ids)
    return b.add(GatherRows(), b.add(GatherRows(), x, source), place)


def _repeated(b: GraphBuilder, h: Any, x: Value, ids: Value) -> Value:
    apart = b.add(Expand((h.r, h.k, h.d)), b.add(Reshape((h.r, 1, h.d)), x))
    return b.add(Reshape((h.r * h.k, h.d)), apart)


DISPATCH_AND_BACK = Rule(
    name="dispatch-and-back",
    identity="the row of each pair, sorted and put back  =  every row k times",
    source="a sort is undone by its inverse permutation",
    operands={"x": "r d", "ids": "index: r k"},
    spellings=(Spelling(_there_and_back),),
    rhs=_repeated,
    fidelity=Fidelity.BITWISE,
    holes=lambda _: {"index": DType.I64, "experts": 3},
    below={"ids": "experts"},
    proof=Proof.EXHAUSTIVE,
)
