"""Which rules fire on captured models; tests/passes/test_rules_on_models.py holds it true."""

IN_ORDER = frozenset(
    {
        "absorb-key-projection-2",
        "absorb-value-projection-2",
        "attention-parts",
        "combine-experts",
        "dispatch-ends",
        "dispatch-source-rows",
        "masked-attention",
        "reshape-head-projection",
        "rms-norm",
        "rotary-half",
        "rotary-interleaved-to-half",
        "rotary-pairs",
        "route-topk",
        "route-topk-biased",
        "slice-head-projection",
        "split-projection-into-heads",
        "swiglu",
    }
)
"""Those that the fixed order applies to some model of tests/passes/programs/captured."""

_ANY_STEP = frozenset(
    {
        "associate-add",
        "delay-norm-past-linear",
        "fold-gain-into-weight",
        "gather-after-norm",
        "gather-before-norm",
        "merge-gate-and-up",
        "merge-parallel-linears",
        "routing-weights-before-projection",
        "slice-of-linear",
    }
)

ALONE: dict[str, frozenset[str]] = {
    "captured": frozenset(
        {
            "associate-add",
            "concat-of-concat",
            "delay-softmax-division",
            "hoist-scale-from-reshape",
            "merge-parallel-linears",
            "narrow-before-reshape",
            "slice-of-linear",
            "slice-of-slice",
            "square-as-product",
        }
    ),
    "serving": _ANY_STEP | {"split-projection-into-heads"},
    "decode": _ANY_STEP | {"absorb-into-output-projection"},
}
"""Of the rules for any program, those that apply alone in a form of a small DeepSeek-V3."""


def fires_on(rule: str) -> str:
    """Return where a rule fires, for a table; empty if in no model of the tests."""
    forms = [name for name, rules in ALONE.items() if rule in rules]
    return ", ".join((["fixed order"] if rule in IN_ORDER else []) + forms)
