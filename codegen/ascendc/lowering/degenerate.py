"""Why sizes are too small for a kernel: an axis of no elements, or a norm over one."""

from ascendfx.codegen.ascendc.lowering.graph_context import GraphContext
from ascendfx.ir.ops import RmsNorm
from ascendfx.ir.tensor_type import TensorType


def degenerate(context: GraphContext, position: int) -> str:
    """Return what is too small in a node that was refused; empty if nothing is."""
    node = context.node(position)
    types = [*node.types, *map(context.graph.type_of, node.operands)]
    empty = next(filter(_is_empty, types), None)
    if empty:
        return f"{empty} has no elements"
    if isinstance(node.op, RmsNorm) and node.types[0].shape[-1] == 1:
        return "a norm over one element is its sign; kernels take two or more"
    return ""


def _is_empty(kind: TensorType) -> bool:
    return 0 in kind.shape
