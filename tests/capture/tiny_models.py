"""Random tiny language models of the families that are to be captured."""

from typing import Any

import torch
from hypothesis import strategies as st
from torch import nn
from transformers import (
    DeepseekV2Config,
    DeepseekV2ForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
)

VOCABULARY = 61
MAX_POSITIONS = 4096


def yarn(mscale: float, mscale_all_dim: float) -> dict[str, Any]:
    """Rotary parameters for sequences 40 times as long as in training."""
    return {
        "rope_type": "yarn",
        "rope_theta": 10000.0,
        "factor": 40.0,
        "original_max_position_embeddings": 64,
        "beta_fast": 32,
        "beta_slow": 1,
        "mscale": mscale,
        "mscale_all_dim": mscale_all_dim,
    }


PLAIN = {"rope_type": "default", "rope_theta": 10000.0}
_LATENT: dict[str, Any] = {
    "vocab_size": VOCABULARY,
    "hidden_size": 32,
    "intermediate_size": 40,
    "moe_intermediate_size": 16,
    "num_hidden_layers": 3,
    "first_k_dense_replace": 1,
    "kv_lora_rank": 16,
    "qk_rope_head_dim": 8,
    "qk_nope_head_dim": 12,
    "v_head_dim": 10,
    "n_routed_experts": 8,
    "n_shared_experts": 1,
    "max_position_embeddings": MAX_POSITIONS,
}


def tiny_latent(**changes: Any) -> dict[str, Any]:
    """Options of a small model with latent attention and experts."""
    return {**_LATENT, **changes}


@st.composite
def deepseek_v3(draw: st.DrawFn, layers: int = 3) -> nn.Module:
    """V3: sigmoid routing with a bias, two layouts of rotary pairs, tied or own head."""
    heads = draw(st.sampled_from([2, 4]))
    config = DeepseekV3Config(
        **tiny_latent(num_hidden_layers=layers),
        num_attention_heads=heads,
        num_key_value_heads=heads,
        q_lora_rank=draw(st.sampled_from([None, 24])),
        n_group=draw(st.sampled_from([1, 2, 4])),
        topk_group=1,
        num_experts_per_tok=draw(st.sampled_from([1, 2])),
        norm_topk_prob=draw(st.booleans()),
        rope_interleave=draw(st.booleans()),
        tie_word_embeddings=draw(st.booleans()),
        rope_parameters=draw(st.sampled_from([PLAIN, yarn(1.0, 1.0), yarn(0.707, 1.0)])),
    )
    return random_weights(DeepseekV3ForCausalLM(config), draw(st.integers(0, 99)))


@st.composite
def deepseek_v2(draw: st.DrawFn, layers: int = 3) -> nn.Module:
    """V2: softmax routing in two ways, rotary embedding with complex numbers."""
    config = DeepseekV2Config(
        **tiny_latent(num_hidden_layers=layers),
        num_attention_heads=2,
        num_key_value_heads=2,
        q_lora_rank=draw(st.sampled_from([None, 24])),
        topk_method=draw(st.sampled_from(["greedy", "group_limited_greedy"])),
        n_group=4,
        topk_group=2,
        num_experts_per_tok=draw(st.sampled_from([1, 3])),
        routed_scaling_factor=draw(st.sampled_from([1.0, 4.0])),
        rope_parameters=draw(st.sampled_from([PLAIN, yarn(0.707, 0.707)])),
    )
    return random_weights(DeepseekV2ForCausalLM(config), draw(st.integers(0, 99)))


@st.composite
def llama(draw: st.DrawFn) -> nn.Module:
    """Llama: grouped heads, rotary halves."""
    config = LlamaConfig(
        vocab_size=VOCABULARY,
        hidden_size=32,
        intermediate_size=40,
        num_hidden_layers=3,
        num_attention_heads=4,
        num_key_value_heads=draw(st.sampled_from([1, 2, 4])),
        max_position_embeddings=MAX_POSITIONS,
        attention_bias=draw(st.booleans()),
        tie_word_embeddings=draw(st.booleans()),
    )
    return random_weights(LlamaForCausalLM(config), draw(st.integers(0, 99)))


def random_weights(model: nn.Module, seed: int) -> nn.Module:
    """Fill parameters and stored buffers so that layers add little to the hidden states.

    Worst-case rounding bounds then stay telling. Routers, the matrices that are no `nn.Linear`,
    get larger weights, so that routing differs from token to token.
    """
    generator = torch.Generator().manual_seed(seed)
    filled: set[int] = set()
    with torch.no_grad():
        for module in model.modules():
            for parameter in module.parameters(recurse=False):
                if id(parameter) in filled:
                    continue
                filled.add(id(parameter))
                centre, width = _spread(module, parameter)
                parameter.normal_(centre, width, generator=generator)
            for buffer in _stored(module):
                buffer.normal_(0.0, 0.1, generator=generator)
    return model


def _spread(module: nn.Module, parameter: torch.Tensor) -> tuple[float, float]:
    if isinstance(module, nn.Embedding):
        return 0.0, 1.0
    if parameter.ndim == 1:
        return 1.0, 0.1
    router = parameter.ndim == 2 and not isinstance(module, nn.Linear)
    return 0.0, 0.3 if router else 0.03


def _stored(module: nn.Module) -> list[torch.Tensor]:
    kept = module.state_dict(keep_vars=True)
    return [buffer for name, buffer in module.named_buffers(recurse=False) if name in kept]
