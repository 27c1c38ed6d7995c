"""Mutants of preconditions that nothing notices, because they change nothing, and why."""

from tests.passes.rule_mutants import Verdict

_SYMMETRIC = "the broadcast of two shapes does not depend on their order"

REASONS: dict[tuple[str, str], str] = {
    (
        "attention",
        "broadcast(scores, site.type_of('mask').shape) -> "
        "broadcast(site.type_of('mask').shape, scores)",
    ): _SYMMETRIC,
    (
        "choose_between_equals",
        "broadcast(shape, site.type_of('condition').shape) -> "
        "broadcast(site.type_of('condition').shape, shape)",
    ): _SYMMETRIC,
    ("dispatch_experts", "0 -> -1"): "the bias of a router has as many elements as its logits",
    (
        "divide_by_root",
        "divisor != 0 and abs(math.frexp(divisor)[0]) == 0.5 -> abs(math.frexp(divisor)[0]) == 0.5",
    ): "the mantissa of zero is zero",
    (
        "hoist_row_scale",
        "broadcast(leading, site.type_of('scale').shape[:-1]) -> "
        "broadcast(site.type_of('scale').shape[:-1], leading)",
    ): _SYMMETRIC,
    (
        "norm_of_scaled",
        "site.holes['scale'] > 0 -> site.holes['scale'] >= 0",
    ): "the square of zero is no normal number, which the other precondition refuses",
    ("rms_norm", "'wide' -> 'narrow'"): "the default is never used: `x` binds the format `narrow`",
    ("rotary", "broadcast(leading, cos) -> broadcast(cos, leading)"): _SYMMETRIC,
    ("rotary", "broadcast(x[:-1], cos[:-1]) -> broadcast(cos[:-1], x[:-1])"): _SYMMETRIC,
    ("rotary", "False -> True"): "both are factors of one product: their shapes do broadcast",
    (
        "rotary_pairs",
        "broadcast(leading, site.type_of('cos').shape[:-1]) -> "
        "broadcast(site.type_of('cos').shape[:-1], leading)",
    ): _SYMMETRIC,
    ("split_projection_into_heads", "all -> any"): "the rule has one result",
    (
        "split_projection_into_heads",
        "not readers or value in graph.outputs -> value in graph.outputs",
    ): "a value without readers is a result of the graph, or was dropped",
}


def is_explained(verdict: Verdict) -> bool:
    """Say whether a mutant that survived is in the list."""
    change = verdict.what.partition(": ")[2]
    return (verdict.file, change) in REASONS
