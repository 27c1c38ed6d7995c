"""Local rewrites, one algebraic identity per file."""

from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import (
    attention,
    attention_parts,
    dispatch_experts,
    rms_norm,
    rotary,
    rotary_pairs,
    route_topk,
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

RULES: tuple[Rule, ...] = RAISING + SPLITTING
"""Every rule; tests/passes/test_rules.py proves each one."""
