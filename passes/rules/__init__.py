"""Local rewrites in named sets; a file holds one identity with its variants."""

from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import (
    absorb_into_output_projection,
    absorb_into_query_projection,
    absorb_key_projection,
    absorb_value_projection,
    associate_products,
    associate_sums,
    attention,
    attention_parts,
    cancel_signs,
    cast_past_movement,
    cast_past_order,
    choose_between_equals,
    commute_cache_read,
    commute_gather,
    compose_head_linears,
    compose_linears,
    delay_norm_past_linear,
    delay_softmax_division,
    dispatch_experts,
    divide_by_root,
    fold_gain_into_weight,
    gather_of_gather,
    hoist_row_scale,
    hoist_scale,
    kept_axis,
    mean_of_sum,
    merge_parallel_linears,
    merge_scales,
    norm_of_scaled,
    relu_of_scaled,
    reshape_head_projection,
    rms_norm,
    rotary,
    rotary_layout_into_weight,
    rotary_layout_of_attention,
    rotary_pairs,
    route_topk,
    scale_into_attention,
    scale_into_route,
    sink_scale_into_weight,
    slice_head_projection,
    slice_of_slice,
    softmax_of_exponentials,
    softmax_of_shifted,
    spelled_out_activations,
    split_projection_into_heads,
    sum_of_linears,
    swiglu,
    transpose_into_weight,
    transpose_of_product,
    weighted_sum_as_matmul,
    weights_into_combine,
    widen_before_arithmetic,
)

RAISING: tuple[Rule, ...] = (
    attention.MASKED_ATTENTION,
    attention.ATTENTION,
    dispatch_experts.ENDS,
    dispatch_experts.SOURCE_ROWS,
    dispatch_experts.COMBINE,
    rms_norm.RULE,
    rotary.HALF,
    rotary.INTERLEAVED,
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
    relu_of_scaled.BY_NONNEGATIVE,
    scale_into_attention.ATTENTION,
    scale_into_attention.RAGGED,
    scale_into_attention.RAGGED_OF_TWO_PARTS,
    scale_into_route.BIASED,
    scale_into_route.UNBIASED,
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

COMMUTING: tuple[Rule, ...] = (
    *commute_gather.RULES,
    *commute_cache_read.RULES,
    gather_of_gather.DISPATCH_AND_BACK,
    gather_of_gather.RULE,
    weights_into_combine.BEFORE_PROJECTION,
    weights_into_combine.ONE_SCALE,
    weights_into_combine.ROW_SCALE,
)
"""Treat rows before or after they are chosen, stored, read or added up."""

LAYOUTS: tuple[Rule, ...] = (
    *rotary_layout_into_weight.RULES,
    rotary_layout_of_attention.ONE_PART,
    rotary_layout_of_attention.TWO_PARTS,
)
"""Order the rows of weights so that nothing is interleaved in a step."""

CASTING: tuple[Rule, ...] = (
    *cast_past_movement.RULES,
    *cast_past_order.RULES,
    *widen_before_arithmetic.RULES,
)
"""Convert where the fewest bytes move, as far as rounding allows."""

ALGEBRA: tuple[Rule, ...] = (
    associate_sums.ASSOCIATE,
    associate_sums.FACTOR_OUT,
    cancel_signs.ADDED,
    cancel_signs.SUBTRACTED,
    cancel_signs.TWICE,
    *choose_between_equals.IDEMPOTENT,
    choose_between_equals.RELU_TWICE,
    choose_between_equals.SELECT,
    divide_by_root.DIVIDE,
    divide_by_root.POWER_OF_TWO,
    slice_of_slice.CONCAT,
    slice_of_slice.SLICE,
)
"""What `simplify` leaves: signs, choices, quotients and parts that cancel or combine."""

RESPELLING: tuple[Rule, ...] = (
    divide_by_root.POWER,
    divide_by_root.RECIPROCAL,
    kept_axis.MAXIMUM,
    kept_axis.SUM,
    mean_of_sum.RULE,
    softmax_of_exponentials.RULE,
    spelled_out_activations.RELU,
    spelled_out_activations.SIGMOID,
    spelled_out_activations.SILU,
    spelled_out_activations.SQUARE,
)
"""Recognise primitive operations that a model spells out."""

SEARCHED: tuple[Rule, ...] = (
    ABSORBING + PRODUCTS + MERGING + SCALING + FOLDING + DELAYING + COMMUTING
)
"""Equalities for the search, many in both directions; a fixed order applies only `ABSORBING`."""

RULES: tuple[Rule, ...] = RAISING + SPLITTING + RESPELLING + ALGEBRA + CASTING + LAYOUTS + SEARCHED
"""Every rule; tests/passes/test_rules.py proves each one."""
