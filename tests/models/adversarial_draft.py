"""Draft layers that are not trained: random, always right, always wrong, always a stop token."""

import json
import shutil
from collections.abc import Sequence
from pathlib import Path

import numpy as np
import torch
from numpy.typing import NDArray
from safetensors.torch import load_file, save_file
from torch import Tensor, nn

from ascendfx import bundled_model
from ascendfx.ir.op import Array
from tests.models.bundled import Golden
from tests.models.reference_draft import ReferenceDraft

WEIGHTS = "model.safetensors"


class Ahead(nn.Module):
    """Predicts the next hidden state by a linear map of token and hidden state, and a token of it.

    It looks at its own row only, and a depth reads what the depth before predicted.
    """

    def __init__(self, embedding: Array, ahead: Array, head: Array, bias: Array) -> None:
        super().__init__()
        vocabulary, width = embedding.shape
        self.embed = nn.Embedding(vocabulary, width)
        self.ahead = nn.Linear(2 * width, width, bias=False)
        self.head = nn.Linear(width, vocabulary)
        weights = (self.embed.weight, self.ahead.weight, self.head.weight, self.head.bias)
        with torch.no_grad():
            for weight, values in zip(weights, (embedding, ahead, head, bias), strict=True):
                weight.copy_(torch.from_numpy(values))

    def forward(self, token_ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        x = self.ahead(torch.cat([self.embed(token_ids), hidden], -1))
        return self.head(x), x


def ahead_drafts(
    reference: ReferenceDraft, golden: Sequence[Golden], tokens: int, end: int
) -> dict[str, Ahead]:
    """Return drafts that are right, wrong, and an end token, for the first tokens of known texts.

    Args:
        reference: The main model, in float64.
        golden: The texts.
        tokens: How many of each; together no more than hidden states have elements, so that a
            linear map can say the next one of each exactly.
        end: The end token.
    """
    source = reference.captured.source
    keys = ("model.embed_tokens.weight", "lm_head.weight")
    embedding, head = (source.load(key).astype(np.float64) for key in keys)
    embedding *= 30.0  # as large as hidden states: rounding of these counts less
    known: list[NDArray[np.float64]] = []
    following: list[NDArray[np.float64]] = []
    for each in golden:
        first = len(each.prompt_ids) - 1
        text = np.array((*each.prompt_ids, *each.output_ids[:tokens]))
        hidden = reference.main(text[None])[1][0]
        rows = np.arange(first, text.size - 1)
        known.append(np.concatenate([embedding[text[rows + 1]], hidden[rows]], axis=1))
        following.append(hidden[rows + 1])
    ahead = (np.linalg.pinv(np.concatenate(known)) @ np.concatenate(following)).T
    no_end, none, only_end = np.zeros((3, len(head)))
    no_end[end] = -1e3  # the known texts were made without end tokens; a draft does not know that
    only_end[end] = 1.0
    return {
        "right": Ahead(embedding, ahead, head, no_end),
        "wrong": Ahead(embedding, ahead, -head, none),
        "stop": Ahead(embedding, ahead, 0 * head, only_end),
    }


def write_random_draft(directory: Path) -> Path:
    """Write the bundled model with random numbers in its draft layer."""
    shutil.copytree(bundled_model(), directory, dirs_exist_ok=True)
    config = json.loads((directory / "config.json").read_text(encoding="utf-8"))
    prefix = f"model.layers.{config['num_hidden_layers']}."
    own = ("embed_tokens.weight", "shared_head.head.weight")
    torch.manual_seed(1)
    tensors = load_file(directory / WEIGHTS)
    for key, tensor in tensors.items():
        if key.startswith(prefix) and not key.endswith(own):
            tensors[key] = (torch.randn(tensor.shape) * 0.1).to(tensor.dtype)
    (directory / WEIGHTS).unlink()
    save_file(tensors, directory / WEIGHTS)
    return directory
