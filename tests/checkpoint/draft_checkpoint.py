"""A small DeepSeek-V3 with draft layers, in a directory as the hub has it."""

from pathlib import Path
from typing import Any

import torch
from safetensors.torch import load_file, save_file
from torch import Tensor
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM
from transformers.modeling_layers import MtpModel

from tests.capture.tiny_models import random_weights, tiny_latent, yarn

WEIGHTS = "model.safetensors"
LAYERS = 2
"""Layers of the main model: those behind it draft."""
WIDTH = 32


def tiny_config(drafts: int, **changes: Any) -> DeepseekV3Config:
    """Return a configuration with draft layers."""
    config = DeepseekV3Config(
        **tiny_latent(
            num_hidden_layers=LAYERS,
            num_attention_heads=2,
            num_key_value_heads=2,
            n_group=2,
            topk_group=1,
            num_experts_per_tok=2,
            rope_parameters=yarn(0.707, 1.0),
            **changes,
        )
    )
    config.num_nextn_predict_layers = drafts
    return config


def write_checkpoint(
    directory: Path, drafts: int = 1, **changes: Any
) -> tuple[DeepseekV3ForCausalLM, MtpModel]:
    """Write a directory; return transformers' model, and its model of the draft layers.

    Args:
        directory: To write to.
        drafts: Number of draft layers.
        changes: Of the configuration.
    """
    return write_model(directory, tiny_config(drafts, **changes), drafts)


def write_model(
    directory: Path, config: Any, drafts: int
) -> tuple[DeepseekV3ForCausalLM, MtpModel]:
    """Write a directory with random weights for a configuration of `LAYERS` layers."""
    main = DeepseekV3ForCausalLM(config)
    mtp = MtpModel(main, drafts)
    random_weights(mtp, 7)
    random_weights(main, 5)
    main.save_pretrained(directory)
    tensors = load_file(directory / WEIGHTS)
    for index, layer in enumerate(mtp.layers):
        path = f"model.layers.{LAYERS + index}"
        for name, tensor in layer.state_dict().items():
            tensors |= _as_stored(f"{path}.{_stored_name(name)}", tensor)
        tensors[f"{path}.embed_tokens.weight"] = main.model.embed_tokens.weight
        tensors[f"{path}.shared_head.head.weight"] = main.lm_head.weight
    save_file(
        {key: tensor.detach().clone().contiguous() for key, tensor in tensors.items()},
        directory / WEIGHTS,
    )
    return main, mtp


def _stored_name(name: str) -> str:
    return name.removeprefix("mtp_block.").replace("post_norm.", "shared_head.norm.")


def _as_stored(key: str, tensor: Tensor) -> dict[str, Tensor]:
    """Return a tensor under its key, or that of each expert."""
    head, dot, last = key.rpartition(".")
    if last == "down_proj" and tensor.ndim == 3:
        return {f"{head}{dot}{i}.down_proj.weight": each for i, each in enumerate(tensor)}
    if last != "gate_up_proj":
        return {key: tensor}
    halves = zip(*(half.unbind() for half in tensor.chunk(2, dim=1)), strict=True)
    return {
        f"{head}{dot}{i}.{name}_proj.weight": each
        for i, pair in enumerate(halves)
        for name, each in zip(("gate", "up"), pair, strict=True)
    }


def eager_draft(mtp: MtpModel, index: int, ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
    """Return logits and hidden states, as transformers computes them."""
    positions = torch.arange(ids.shape[1]).unsqueeze(0)
    normed = mtp.forward_layer(index, hidden, positions, mtp_cache=None, input_ids=ids)
    return mtp.shared_head(normed), normed
