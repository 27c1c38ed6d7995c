"""Local rewrites, one algebraic identity per file, in named sets."""

from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import (
    absorb_into_output_projection,
    absorb_into_query_projection,
    absorb_key_projection,
    absorb_value_projection,
    associate_products,
    attention,
    attention_parts,
    compose_head_linears,
    compose_linears,
    delay_norm_past_linear,
    delay_softmax_division,
    dispatch_experts,
    fold_gain_into_weight,
    hoist_row_scale,
    hoist_scale,
    merge_parallel_linears,
    merge_scales,
    norm_of_scaled,
    relu_of_scaled,
    reshape_head_projection,
    rms_norm,
    rotary,
    rotary_pairs,
    route_topk,
    scale_into_attention,
    sink_scale_into_weight,
    slice_head_projection,
    softmax_of_exponentials,
    softmax_of_shifted,
    split_projection_into_heads,
    sum_of_linears,
    swiglu,
    transpose_into_weight,
    transpose_of_product,
    weighted_sum_as_matmul,
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

PRODUCTS: tuple[Rule, ...] = (
    absorb_into_output_projection.RULE,
    absorb_into_query_projection.RULE,
    associate_products.TO_THE_LEFT,
    associate_products.TO_THE_RIGHT,
    compose_head_linears.RULE,
    compose_linears.COMPOSE,
    compose_linears.FACTOR,
    sum_of_linears.JOIN,
    sum_of_linears.ONE_INPUT,
    sum_of_linears.ONE_WEIGHT,
    sum_of_linears.SPLIT,
    transpose_into_weight.AS_LINEAR,
    transpose_into_weight.AS_MATMUL,
    transpose_of_product.LINEAR,
    transpose_of_product.MATMUL,
)
"""State how products can be grouped, transposed and added; which form is best, costs decide."""

MERGING: tuple[Rule, ...] = (
    merge_parallel_linears.CONCAT,
    merge_parallel_linears.GATE_AND_UP,
    merge_parallel_linears.PARALLEL,
    merge_parallel_linears.SLICE,
)
"""One product for several weights with the same input, and back."""

SCALING: tuple[Rule, ...] = (
    *hoist_scale.RULES,
    *hoist_row_scale.RULES,
    merge_scales.RULE,
    norm_of_scaled.RULE,
    relu_of_scaled.BY_CONSTANT,
    scale_into_attention.ATTENTION,
    scale_into_attention.RAGGED,
    scale_into_attention.RAGGED_OF_TWO_PARTS,
)
"""Move factors behind what is homogeneous, to where they cost least or meet another."""

FOLDING: tuple[Rule, ...] = (
    fold_gain_into_weight.RULE,
    sink_scale_into_weight.ONE_SCALE,
    sink_scale_into_weight.SCALE_PER_CHANNEL,
)
"""Move factors into parameters, where `fold-weights` makes them disappear."""

DELAYING: tuple[Rule, ...] = (
    delay_norm_past_linear.RULE,
    delay_softmax_division.RULE,
    softmax_of_shifted.BY_CONSTANT,
    softmax_of_shifted.BY_MAXIMUM,
    weighted_sum_as_matmul.RULE,
)
"""Normalise results instead of operands, and let the matrix unit do sums."""

RESPELLING: tuple[Rule, ...] = (softmax_of_exponentials.RULE,)
"""Recognise primitive operations that a model spells out."""

SEARCHED: tuple[Rule, ...] = ABSORBING + PRODUCTS + MERGING + SCALING + FOLDING + DELAYING
"""Equalities for the search, most of them in both directions; no fixed order applies these."""

RULES: tuple[Rule, ...] = RAISING + SPLITTING + RESPELLING + SEARCHED
"""Every rule; tests/passes/test_rules.py proves each one."""
