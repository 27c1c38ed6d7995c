"""Models whose sizes the kernels do not serve: refused by the planner, with the numbers."""

from typing import Any

import pytest
import torch
from transformers import DeepseekV3Config, LlamaConfig

from ascendfx import GraphError
from ascendfx.runtime.compile_model import compile_model
from tests.bad_input.ended import LIMITS
from tests.models.random_checkpoint import random_model

SERVED: dict[str, Any] = {
    "hidden_size": 48,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "first_k_dense_replace": 1,
    "num_attention_heads": 2,
    "num_key_value_heads": 2,
    "vocab_size": 43,
    "kv_lora_rank": 24,
    "q_lora_rank": 8,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 24,
}


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        ({"v_head_dim": 12}, "a vector of 12 f32 is 48 bytes, not a positive multiple of 32"),
        ({"qk_rope_head_dim": 4}, "a vector of 4 f32 is 16 bytes, not a positive multiple of 32"),
        ({"kv_lora_rank": 20}, "a vector of 20 f32 is 80 bytes, not a positive multiple of 32"),
    ],
    ids=["value", "rotary", "latent"],
)
def test_vectors_that_are_no_multiple_of_32_bytes_are_refused(
    size: dict[str, int], reason: str
) -> None:
    model = random_model(DeepseekV3Config(**{**SERVED, **size}), seed=0)
    with pytest.raises(GraphError) as caught:
        compile_model(model, limits=LIMITS)
    assert caught.value.code == "unaligned-head"
    assert reason in caught.value.reason
    assert caught.value.hint == "head sizes must be multiples of 8"
    assert "ragged_attention" in caught.value.excerpt


@pytest.mark.parametrize(
    ("size", "reason"),
    [
        (
            {"first_k_dense_replace": 0, "n_shared_experts": 0, "n_routed_experts": 4}
            | {"n_group": 2, "topk_group": 1, "num_experts_per_tok": 2}
            | {"moe_intermediate_size": 16},
            "linear: f32[rows, 0] has no elements",
        ),
        ({"q_lora_rank": 1}, "rms_norm: a norm over one element"),
    ],
    ids=["no shared expert", "norm of one"],
)
def test_sizes_of_zero_and_one_are_named(size: dict[str, Any], reason: str) -> None:
    model = random_model(DeepseekV3Config(**{**SERVED, **size}), seed=0)
    with torch.no_grad():
        model(torch.zeros((1, 5), dtype=torch.int64))  # which runs elsewhere
    with pytest.raises(GraphError) as caught:
        compile_model(model, limits=LIMITS)
    assert caught.value.code == "no-kernel"
    assert reason in caught.value.reason
    assert "configuration" in caught.value.hint


@pytest.mark.parametrize("key_heads", [4, 2, 1], ids=["multi-head", "grouped", "multi-query"])
def test_attention_without_a_latent_is_refused(key_heads: int) -> None:
    model = random_model(
        LlamaConfig(
            vocab_size=43,
            hidden_size=32,
            intermediate_size=24,
            num_hidden_layers=1,
            num_attention_heads=4,
            num_key_value_heads=key_heads,
        ),
        seed=0,
    )
    with pytest.raises(GraphError) as caught:
        compile_model(model, limits=LIMITS)
    assert caught.value.code == "no-kernel"
    assert f"keys of {key_heads} heads in 1 part(s)" in caught.value.reason
    assert "kernels exist for latent attention" in caught.value.hint


@pytest.mark.parametrize(
    ("experts", "groups"), [(2, 2), (1, 1), (5, 2)], ids=["one-per-group", "one", "unequal"]
)
def test_a_router_that_fails_in_the_model_itself_is_named(experts: int, groups: int) -> None:
    # DeepSeek V3 adds the two best scores of a group; a group of one has no second.
    routed = {
        "first_k_dense_replace": 0,
        "n_routed_experts": experts,
        "n_group": groups,
        "topk_group": 1,
        "num_experts_per_tok": 1,
        "moe_intermediate_size": 16,
    }
    model = random_model(DeepseekV3Config(**{**SERVED, **routed}), seed=0)
    with pytest.raises(RuntimeError, match=r"out of range|is invalid"):
        model(torch.zeros((1, 5), dtype=torch.int64))
    with pytest.raises(GraphError) as caught:
        compile_model(model, limits=LIMITS)
    assert caught.value.code == "model-fails"
    assert "without ascendfx" in caught.value.hint
    assert "modeling_deepseek_v3.py" in caught.value.location.file
