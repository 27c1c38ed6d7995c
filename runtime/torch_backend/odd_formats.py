"""Calls whose operands or results have a format that memory of kernels does not hold."""

from torch import Tensor, bfloat16, bool, float32, int32, int64  # noqa: A004  # formats
from torch.fx import GraphModule, Node

_FORMATS = (float32, bfloat16, int32, int64, bool)


def odd_formats(part: GraphModule) -> dict[str, str]:
    """Return the calls of a part that have to stay eager for their formats, and why.

    Inside of a part any format may occur: complex numbers are pairs there. What enters or leaves it
    may not, and a call that stays eager makes what it reads and returns cross the border.
    """
    (output,) = part.graph.find_nodes(op="output")
    pending: list[tuple[Node, str]] = []
    for node in (*part.graph.find_nodes(op="placeholder"), *output.all_input_nodes):
        if found := _odd(node):
            readers = [node, *node.users] if node.op == "placeholder" else [node]
            pending += [(each, f"`{node.name}` is {found}") for each in readers]
    why: dict[str, str] = {}
    while pending:
        node, reason = pending.pop()
        if node.op == "call_function" and node.name not in why:
            why[node.name] = reason
            pending += [(each, reason) for each in node.all_input_nodes if _odd(each)]
            pending += [(each, reason) for each in node.users if _odd(node)]
    return {node.name: why[node.name] for node in part.graph.nodes if node.name in why}


def _odd(node: Node) -> str:
    """Return the format of what a node returns, or of a part of it, if it is odd."""
    found = node.meta.get("val")
    values = found if isinstance(found, list | tuple) else [found]
    return next(
        (str(v.dtype) for v in values if isinstance(v, Tensor) and v.dtype not in _FORMATS), ""
    )
