"""Small modules of transformers with random weights that keep activations near one."""

from typing import Any

import torch
from torch import nn
from transformers import AutoModelForCausalLM


def random_model(config: Any, *, seed: int, dtype: torch.dtype = torch.float32) -> nn.Module:
    """Return the causal language model of ``config``.

    Weights are ``N(0, 1 / k)`` for sums of ``k`` terms, gains ``1 + N(0, 0.01)``, biases of routers
    ``N(0, 0.01)``, so that nothing is zero or one by construction.
    """
    random = torch.Generator().manual_seed(seed)
    model = AutoModelForCausalLM.from_config(config, dtype=dtype, attn_implementation="eager")
    with torch.no_grad():
        for name, tensor in [*model.named_parameters(), *_stored_buffers(model)]:
            noise = torch.randn(tensor.shape, generator=random, dtype=torch.float32)
            if "norm" in name:
                noise = 1 + 0.1 * noise
            elif tensor.ndim == 1:
                noise = 0.1 * noise
            elif "embed" not in name:
                noise = noise / tensor.shape[-1] ** 0.5
            tensor.copy_(noise)
    return model.eval()


def _stored_buffers(model: nn.Module) -> list[tuple[str, torch.Tensor]]:
    stored = model.state_dict()
    return [(name, each) for name, each in model.named_buffers() if name in stored]
