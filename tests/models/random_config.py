"""Random small configurations of DeepSeek V2 and V3, of shapes that the kernels serve."""

from typing import Any

import torch
from hypothesis import strategies as st
from transformers import DeepseekV2Config, DeepseekV3Config, PretrainedConfig

GRANULE = {torch.float32: 8, torch.bfloat16: 16}
"""Elements of 32 bytes: vectors of a head and cache entries are multiples of it; what else is
refused with that reason (``tests/bad_input/test_unserved_shapes.py``)."""

LAYERS = 2


def _multiples(granule: int, high: int) -> st.SearchStrategy[int]:
    return st.integers(1, high).map(lambda count: count * granule)


@st.composite
def _rope_parameters(draw: st.DrawFn) -> dict[str, Any]:
    theta = draw(st.sampled_from([100.0, 10_000.0]))
    if draw(st.booleans()):
        return {"rope_type": "default", "rope_theta": theta}
    yarn: dict[str, Any] = {
        "rope_type": "yarn",
        "rope_theta": theta,
        "factor": draw(st.sampled_from([4.0, 40.0])),
        "original_max_position_embeddings": draw(st.sampled_from([16, 64])),
        "beta_fast": draw(st.sampled_from([2, 32])),
        "beta_slow": 1,
    }
    # The rotary factor is the ratio of two mscales, the softmax scale has the square of the second.
    mscales = draw(st.sampled_from([(), (1.0, 1.0), (0.707, 0.707), (1.0, 0.5), (0.5, 0.0)]))
    return {**yarn, **dict(zip(("mscale", "mscale_all_dim"), mscales, strict=False))}


@st.composite
def _experts(draw: st.DrawFn, dtype: torch.dtype, least: int) -> dict[str, Any]:
    float32 = dtype is torch.float32
    groups = draw(st.integers(1, 4))
    per_group = draw(st.integers(least, 5 if float32 else 4))  # at most 16 can be chosen
    chosen_groups = draw(st.integers(1, groups))
    chosen = draw(st.integers(1, min(4, chosen_groups * per_group)))
    if not float32:  # roundings would change a choice here and there: all are chosen
        chosen_groups, chosen = groups, groups * per_group
    return {
        "n_routed_experts": groups * per_group,
        "n_group": groups,
        "topk_group": chosen_groups,
        "num_experts_per_tok": chosen,
        "n_shared_experts": draw(st.integers(1, 2)),
        "routed_scaling_factor": draw(st.sampled_from([1.0, 2.5, 16.0])),
        "moe_intermediate_size": draw(st.integers(5, 48) if float32 else _multiples(8, 6)),
        "first_k_dense_replace": draw(st.integers(0, LAYERS)),
    }


@st.composite
def _common(draw: st.DrawFn, dtype: torch.dtype, least: int) -> dict[str, Any]:
    granule = GRANULE[dtype]
    heads = draw(st.integers(1, 6))
    # V2 wants a multiple of the heads. The latent may be wider than the hidden state, and than the
    # keys and values of all heads.
    hidden = heads * draw(st.integers(-(-20 // heads), 24))
    if dtype is torch.bfloat16:  # torch multiplies groups of rows of whole 16 bytes only
        hidden = -(-hidden // (8 * heads)) * 8 * heads
    return {
        "num_hidden_layers": LAYERS,
        "num_attention_heads": heads,
        "num_key_value_heads": heads,
        "hidden_size": hidden,
        "intermediate_size": draw(st.integers(10, 90)),
        "vocab_size": draw(st.integers(40, 150)),
        "kv_lora_rank": draw(_multiples(granule, 6)),
        "q_lora_rank": draw(st.none() | st.integers(5, 40)),
        "qk_nope_head_dim": draw(_multiples(granule, 4)),
        "qk_rope_head_dim": draw(_multiples(granule, 3)),
        "v_head_dim": draw(_multiples(granule, 4)),
        "rms_norm_eps": draw(st.sampled_from([1e-6, 1e-5])),
        "tie_word_embeddings": draw(st.booleans()),
        "rope_parameters": draw(_rope_parameters()),
        "max_position_embeddings": 512,
        **draw(_experts(dtype, least)),
    }


@st.composite
def v2_configs(draw: st.DrawFn, dtype: torch.dtype = torch.float32) -> PretrainedConfig:
    """Draw a configuration of DeepSeek V2: softmax router, greedy or limited to groups."""
    method = draw(st.sampled_from(["greedy", "group_limited_greedy"]))
    return DeepseekV2Config(**draw(_common(dtype, least=1)), topk_method=method)


@st.composite
def v3_configs(draw: st.DrawFn, dtype: torch.dtype = torch.float32) -> PretrainedConfig:
    """Draw a configuration of DeepSeek V3: sigmoid router with a bias that only selects."""
    return DeepseekV3Config(
        **draw(_common(dtype, least=2)),  # it adds the two best scores of each group
        norm_topk_prob=draw(st.booleans()),
        rope_interleave=draw(st.booleans()),
    )
