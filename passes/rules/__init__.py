"""Local rewrites, one algebraic identity per file."""

from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import (
    absorb_key_projection,
    absorb_value_projection,
    attention,
    attention_parts,
    dispatch_experts,
    reshape_head_projection,
    rms_norm,
    rotary,
    rotary_pairs,
    route_topk,
    slice_head_projection,
    split_projection_into_heads,
    swiglu,
)

RAISING: tuple[Rule, ...] = (
    attention.MASKED_ATTENTION,
    attention.ATTENTION,
    dispatch_experts.ENDS,
    dispatch_experts.SOURCE_ROWS,
    dispatch_experts.COMBINE,
    rms_norm.RULE,
    rotary.HALF,
    rotary.INTERLEAVED_TO_HALF,
    rotary_pairs.RULE,
    route_topk.BIASED,
    route_topk.UNBIASED,
    swiglu.RULE,
)
"""Recognise the operations of the field in primitive ones."""

SPLITTING: tuple[Rule, ...] = (
    attention_parts.ATTENTION_PARTS,
    attention_parts.MASKED_ATTENTION_PARTS,
)
"""Refine recognised attention, once transposes no longer stand in between."""

ABSORBING: tuple[Rule, ...] = (
    split_projection_into_heads.RULE,
    slice_head_projection.RULE,
    reshape_head_projection.RULE,
    absorb_key_projection.ABSORB_KEY_PROJECTION,
    absorb_key_projection.ABSORB_KEY_PROJECTION_OF_TWO_PARTS,
    absorb_value_projection.ABSORB_VALUE_PROJECTION,
    absorb_value_projection.ABSORB_VALUE_PROJECTION_OF_TWO_PARTS,
)
"""Move projections of the cached tokens to the query and the result."""

RULES: tuple[Rule, ...] = RAISING + SPLITTING + ABSORBING
"""Every rule; tests/passes/test_rules.py proves each one."""
