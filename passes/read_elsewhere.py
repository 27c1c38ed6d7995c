"""The condition of rules that hide what they compute on the way."""

from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Cast, Concat, Constant, Expand, Reshape, Slice, Transpose
from ascendfx.passes.rule import Precondition, Site

_CHEAP = (Cast, Concat, Constant, Expand, Reshape, Slice, Transpose)
"""What may be done twice: it moves or renames values."""


def _nothing_else_reads(site: Site) -> bool:
    graph, roots = site.graph, {value.node for value in site.outputs}
    for position in site.interior - roots:
        if isinstance(graph.nodes[position].op, _CHEAP):
            continue
        for result in range(len(graph.nodes[position].types)):
            value = Value(position, result)
            readers = set(graph.uses.get(value, ()))
            if readers - site.interior or value in graph.outputs:
                return False
    return True


INTERMEDIATE_IS_READ_ELSEWHERE = Precondition(
    "intermediate-is-read-elsewhere",
    _nothing_else_reads,
    "a value on the way is read elsewhere, and would be computed twice",
)
