"""Logits that nothing can be said of."""

from ascendfx.ir.diagnostic import GraphError


def no_numbers(model: str) -> GraphError:
    """Return the error for a model whose logits are no numbers."""
    return GraphError(
        "logits-overflow",
        f"logits of {model} are infinite, NaN or all zero",
        hint="check the weights: `ascendfx compile --verify each-pass` names the layer",
    )
