"""Whole decoder layers of a tiny DeepSeek-V3: what can be kernels is, and the numbers hold."""

import copy

import pytest
import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from ascendfx.ir.capture.eager_modules import in_float64
from ascendfx.runtime.torch_backend.backend import backend
from ascendfx.runtime.torch_backend.remarks import remarks
from tests.capture.tiny_models import PLAIN, tiny_latent
from tests.torch_backend.modules import unit_roundoff

TOKENS = 6


def _layer(index, dtype):
    config = DeepseekV3Config(
        **tiny_latent(num_hidden_layers=2),
        num_attention_heads=2,
        num_key_value_heads=2,
        q_lora_rank=24,
        n_group=4,
        topk_group=2,
        num_experts_per_tok=2,
        rope_parameters=PLAIN,
    )
    config._attn_implementation = "eager"
    config._experts_implementation = "grouped_mm"
    model = DeepseekV3ForCausalLM(config).eval().to(dtype)
    x = torch.randn(1, TOKENS, config.hidden_size).to(dtype)
    positions = torch.arange(TOKENS)[None]
    mask = torch.full((TOKENS, TOKENS), float("-inf")).triu(1)[None, None].to(dtype)
    return model.model.layers[index], {
        "hidden_states": x,
        "attention_mask": mask,
        "position_ids": positions,
        "position_embeddings": model.model.rotary_emb(x, positions),
    }


def _wide(value):
    if isinstance(value, tuple):
        return tuple(map(_wide, value))
    return value.double() if value.is_floating_point() else value


def _tensor(found):
    return found[0] if isinstance(found, tuple) else found


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("index", [0, 1])
def test_layer(index, dtype):
    layer, inputs = _layer(index, dtype)
    found = _tensor(torch.compile(layer, backend=backend)(**inputs))
    eager = _tensor(layer(**inputs))
    plain = copy.deepcopy(layer)
    for module in plain.modules():
        if hasattr(module, "config"):
            module.config._experts_implementation = "eager"  # grouped_mm has no float64
    with in_float64(plain) as wide:
        wanted = _tensor(wide(**{name: _wide(value) for name, value in inputs.items()}))
    # Both take the same steps, so both are within one bound of the exact result; the error of
    # eager shows it, down to the last rounding of either.
    ours, theirs = ((each.double() - wanted).abs().max() for each in (found, eager))
    last = unit_roundoff(dtype) * wanted.abs().max()
    assert ours <= 2 * theirs + 2 * last
    assert {each.code for each in remarks()} == {"no-row-form"}
    assert not [each for each in remarks() if "mm" in each.what and "bmm" not in each.what]


@pytest.mark.parametrize("shape", [(1, 1), (1, TOKENS), (2, 3)])
@pytest.mark.parametrize("index", [0, 1])
def test_the_feed_forward_part_alone_is_kernels(index, shape):
    layer, _ = _layer(index, torch.float32)
    part = layer.mlp  # in layer 1 its last addition, of the shared experts, is the result
    x = torch.randn(*shape, part.config.hidden_size)
    with torch.no_grad():
        found, eager = torch.compile(part, backend=backend)(x), part(x)
    assert {each.code for each in remarks()} <= {"no-row-form"}, remarks()
    torch.testing.assert_close(found, eager)
    assert not [each for each in remarks() if "mm" in each.what and "bmm" not in each.what]
