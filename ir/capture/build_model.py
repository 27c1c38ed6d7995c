"""From a configuration to a module without weights."""

from pathlib import Path
from typing import Any

import torch
from torch import nn

from ascendfx.ir.capture.without_values import TORCH_DTYPES, large_tensors_on_meta
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType


def build_model(directory: Path, dtype: DType | None) -> nn.Module:
    """Return the causal language model that ``config.json`` describes.

    Weights have no values; buffers that the constructor computes have them.

    Args:
        directory: In the Hugging Face layout.
        dtype: Element format; by default the one the configuration names.

    Raises:
        GraphError: transformers is not installed or does not know the architecture.
    """
    try:
        from transformers import AutoConfig, AutoModelForCausalLM  # noqa: PLC0415  # an extra
    except ImportError as error:
        raise GraphError(
            "no-transformers",
            "reading a model directory needs transformers",
            hint="pip install ascendfx[capture]",
        ) from error
    try:
        config: Any = AutoConfig.from_pretrained(directory, local_files_only=True)
        kind = TORCH_DTYPES[dtype] if dtype else (config.dtype or torch.float32)
        with large_tensors_on_meta():
            return AutoModelForCausalLM.from_config(config, dtype=kind)
    except Exception as error:  # transformers and modules raise what they like, also for bad values
        first, *more = _lines(error)
        raise GraphError(
            "unknown-model",
            f"transformers cannot build the model of {directory / 'config.json'}: {first}",
            notes=tuple(more),
            hint="pass the model as a module, or use an architecture that transformers knows",
        ) from error


def _lines(error: Exception) -> list[str]:
    """Return what an error says, of which the first line may only name the field."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[:_MOST_LINES] or [type(error).__name__]


_MOST_LINES = 6
