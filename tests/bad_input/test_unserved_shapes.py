"""Models whose sizes the kernels do not serve: refused by the planner, with the numbers."""

from typing import Any

import pytest
from transformers import DeepseekV3Config

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


def test_a_latent_wider_than_the_hidden_state_is_refused() -> None:
    # The minimum cut then stores the hidden state, from which decode would expand every key.
    model = random_model(DeepseekV3Config(**{**SERVED, "kv_lora_rank": 64}), seed=0)
    with pytest.raises(GraphError) as caught:
        compile_model(model, limits=LIMITS)
    assert caught.value.code == "no-kernel"
    assert "expanded keys f32[requests, context, 1, 64] of up to 2 requests" in str(caught.value)
    assert "absorbed form" in caught.value.hint
