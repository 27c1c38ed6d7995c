"""Let attention read shared key and value heads instead of repeated copies."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Attention, Expand, Reshape
from ascendfx.ir.tensor_type import TensorType
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.graph_pass import Fidelity, GraphPass, GraphResult
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.remark import Remark

_HEADS = 2


@dataclass(frozen=True, slots=True)
class ShareKeyHeads(GraphPass):
    """Grouped-query attention: a key head that is repeated ``n`` times is stored once.

    Recognised repetitions of ``x [b, s, g, d]``, each of which puts the copies of a head next to
    each other, as `Attention` reads them:

    * ``expand x {[b, s, h, d]}`` with ``g = 1``;
    * ``reshape(expand(reshape x {[b, s, g, 1, d]}) {[b, s, g, n, d]}) {[b, s, g n, d]}``.

    Copies in another order (``[b, s, n, g, d]``) are left alone and remarked.
    """

    name: ClassVar[str] = "share-key-heads"
    fidelity: ClassVar[Fidelity] = Fidelity.BITWISE

    def run_graph(self, graph: Graph) -> GraphResult:
        """Replace every repeated key or value operand."""
        shared = 0
        remarks: list[Remark] = []

        def emit(
            builder: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
        ) -> tuple[Value, ...] | None:
            nonlocal shared
            if not isinstance(node.op, Attention):
                return None
            roles = node.op.roles(operands)
            key_side = [*roles.keys, roles.values]
            for i, value in enumerate(key_side):
                source = _source_of_heads(builder, value)
                if isinstance(source, Value):
                    key_side[i] = source
                    shared += 1
                elif source:
                    remarks.append(Remark(f"share-key-heads: {source}", node.location))
            *keys, values = key_side
            narrowed = roles._replace(keys=tuple(keys), values=values)
            return builder.add_multi(node.op, *narrowed.operands)

        after = rebuild(graph, emit)
        if not shared:
            return GraphResult(graph, {}, tuple(remarks))
        after = DropUnused().run_graph(after).graph
        return GraphResult(after, {"operands shared": shared}, tuple(remarks))


def _source_of_heads(b: GraphBuilder, x: Value) -> Value | str:
    """Return the tensor with fewer heads, or why there is none; "" if nothing is repeated."""
    kind, op = b.type_of(x), b.op_of(x)
    if isinstance(op, Expand):
        (source,) = b.operands_of(x)
        return source if _only_heads_repeat(b.type_of(source), kind) else "other axes repeat, too"
    if not isinstance(op, Reshape):
        return ""
    (copies,) = b.operands_of(x)
    if not isinstance(b.op_of(copies), Expand):
        return ""
    (source,) = b.operands_of(copies)
    before, after = b.type_of(source).shape, b.type_of(copies).shape
    batch, context, heads, size = kind.shape
    if len(after) != 5 or (*after[:2], after[4]) != (batch, context, size):
        return "the repeated axes are not those of the heads"
    if before != (*after[:3], 1, size):
        return f"the copies of a head are not neighbours: {b.type_of(copies)}"
    if not isinstance(after[2], int) or not isinstance(heads, int) or heads % after[2]:
        return f"{after[2]} heads do not divide {heads}"
    return b.add(Reshape((batch, context, after[2], size)), source)


def _only_heads_repeat(source: TensorType, kind: TensorType) -> bool:
    return source.shape == (*kind.shape[:_HEADS], 1, kind.shape[3])
