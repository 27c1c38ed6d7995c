"""A truth with infinities or NaN says nothing of what comes behind them."""

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.passes.verification.follow_truth import Truth


def require_finite(captured: Program, truth: Truth) -> None:
    """Check that the results of all layers, and the logits, are numbers.

    Raises:
        GraphError: Some are not; the first layer is named.
    """
    calls = [node for node in captured.main.nodes if isinstance(node.op, Call)]
    for node, results in zip(calls, truth.calls, strict=True):
        for value, _ in results:
            if lost := _lost(value):
                name = node.location.module or f"@{node.op.mnemonic}"
                raise _not_finite(f"layer `{name}` on:", lost, node.location)
    for value, _ in (truth.logits, *truth.states):
        if lost := _lost(value):
            raise _not_finite("the logits on:", lost, UNKNOWN)


def _lost(value: Array) -> str:
    if value.dtype.kind != "f":
        return ""
    count = int(np.count_nonzero(~np.isfinite(value)))
    return f"{count:,} of {value.size:,} elements" if count else ""


def _not_finite(where: str, lost: str, location: Location) -> GraphError:
    return GraphError(
        code="truth-not-finite",
        reason=f"the float64 truth is not finite from {where} {lost} are inf or NaN, so nothing "
        "can be compared",
        location=location,
        hint="look for inf and NaN in the weights, or compile without verification",
    )
