"""What rules that divide by factors ask: that they are factors, which are positive."""

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import Cast, Param
from ascendfx.passes.rule import Precondition, Site, Values
from ascendfx.quant_passes.migration.transform_name import is_factors_name

FACTORS = Values(low=2.0**-16, high=2.0**16, ensured_by="not-factors")
"""`Scaling` refuses what is not positive and finite, the delivery what is outside this range."""


def is_factors(graph: Graph, value: Value) -> bool:
    """Whether a value is factors, in any format."""
    op = graph.op_of(value)
    while isinstance(op, Cast):
        (value,) = graph.nodes[value.node].operands
        op = graph.op_of(value)
    return isinstance(op, Param) and is_factors_name(op.name)


def _known(site: Site) -> bool:
    return is_factors(site.graph, site.bound["s"])


KNOWN_FACTORS = Precondition(
    "not-factors", _known, "what is divided by is not known to be positive"
)
