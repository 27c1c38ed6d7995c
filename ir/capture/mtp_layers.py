"""The draft layers of a checkpoint as modules, built of transformers' own classes.

The tensors ``model.layers.{N}.*`` with ``N >= num_hidden_layers`` are layers of multi-token
prediction (DeepSeek-V3 technical report, section 2.2), which the causal language model of
transformers leaves out. Its ``MtpModel`` knows how such a layer is wired, and shares embedding,
head and rotary table with the main model.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

from ascendfx.ir.capture.capture_draft import TracedDraft, keys_beside, trace_draft
from ascendfx.ir.capture.rename_paths import moved_path
from ascendfx.ir.capture.translation import DTYPES
from ascendfx.ir.capture.weights_of_module import weight_types
from ascendfx.ir.capture.without_values import (
    TORCH_DTYPES,
    copy_without_values,
    large_tensors_on_meta,
)
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType


class MtpDraft(nn.Module):
    """One draft layer: token ids and hidden states to logits and hidden states of every row.

    Attributes:
        mtp: transformers' model of all draft layers.
    """

    def __init__(self, mtp: Any, index: int) -> None:
        super().__init__()
        self.mtp = mtp
        self._index = index

    @property
    def config(self) -> Any:
        """The configuration of the draft layers."""
        return self.mtp.config

    def set_attn_implementation(self, name: str) -> None:
        """Choose how attention is written, as in every model of transformers."""
        self.mtp.set_attn_implementation(name)

    def set_experts_implementation(self, name: str) -> None:
        """Choose how experts are written, as in every model of transformers."""
        self.mtp.set_experts_implementation(name)

    def forward(self, token_ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor, Tensor]:
        """Return the logits, and the hidden states behind and before the layer's last norm."""
        positions = torch.arange(token_ids.shape[1], device=token_ids.device).unsqueeze(0)
        raw = self.mtp.forward_layer(
            self._index, hidden, positions, mtp_cache=None, input_ids=token_ids
        )
        normed = self.mtp.layers[self._index].post_norm(raw)
        return self.mtp._project_to_logits(normed), normed, raw  # of transformers


@dataclass(frozen=True, slots=True)
class MtpLayer:
    """A draft layer, and what its parts are called beside the main model.

    Attributes:
        module: Embedding, head and rotary table are the main model's.
        path: Where the checkpoint has the layer.
        names: Paths in ``module`` and what to call them; the first that fits counts.
        keys: Key of each tensor of ``module`` by its name there.
        wanted: Type of each tensor that is the layer's own, by key.
        copies: What a checkpoint may repeat of the main model: the main model's key by the layer's.
    """

    module: MtpDraft
    path: str
    names: Mapping[str, str]
    keys: Mapping[str, str]
    wanted: Mapping[str, TensorType]
    copies: Mapping[str, str]


def mtp_layers(main: nn.Module, count: int, dtype: DType | None) -> tuple[MtpLayer, ...]:
    """Return the draft layers that belong to a model.

    Args:
        main: A causal language model of transformers.
        count: How many there are.
        dtype: Element format; by default the one the configuration names.

    Raises:
        GraphError: transformers cannot build draft layers for this model.
    """
    model: Any = main
    before = torch.get_default_dtype()
    try:
        from transformers.modeling_layers import MtpModel  # noqa: PLC0415  # an extra

        torch.set_default_dtype(TORCH_DTYPES[dtype] if dtype else model.config.dtype or before)
        with large_tensors_on_meta():
            mtp: Any = MtpModel(model, count)
        home = _path_of(model, model.get_decoder().layers)
        first = int(model.config.num_hidden_layers)
        shared = {
            f"mtp.{name}": _path_of(model, getattr(mtp, name))
            for name in ("embed_tokens", "shared_head", "rotary_emb")
        }
    except Exception as error:  # transformers and modules raise what they like
        raise _unknown(main, str(error).strip().split("\n", 1)[0]) from error
    finally:
        torch.set_default_dtype(before)
    if not mtp.use_post_norm:
        raise _unknown(main, "they have no norm of their own")
    for layer in mtp.layers:
        layer.use_post_norm = False  # applied in `MtpDraft.forward`, so that both sides are seen
    return tuple(_layer(main, mtp, i, f"{home}.{first + i}", shared) for i in range(count))


def trace_mtp_layer(layer: MtpLayer) -> TracedDraft:
    """Return the program of a draft layer; tensors are not read.

    Raises:
        GraphError: The layer cannot be captured.
    """
    shell, _ = copy_without_values(layer.module, None)
    embedding = _type_of(layer.module.mtp.embed_tokens.weight)
    hidden = embedding.with_shape((named_size("batch"), named_size("tokens"), embedding.shape[-1]))
    return trace_draft(shell, hidden, layer.keys, lambda path: moved_path(path, layer.names))


def _layer(main: nn.Module, mtp: Any, index: int, path: str, shared: Mapping[str, str]) -> MtpLayer:
    module = MtpDraft(mtp, index)
    own = f"mtp.layers.{index}"
    # What a checkpoint calls the parts of a layer. Source: transformers 5.24,
    # conversion_mapping.py, entry MtpModel.
    names = {
        f"{own}.mtp_block": path,
        f"{own}.post_norm": f"{path}.shared_head.norm",
        own: path,
        **shared,
    }
    keys = keys_beside(module, main, lambda name: moved_path(name, names))
    types, _ = weight_types(module)
    wanted = {keys[name]: kind for name, kind in types.items() if name.startswith(f"{own}.")}
    copies = {
        f"{path}.embed_tokens.weight": keys["mtp.embed_tokens.weight"],
        f"{path}.shared_head.head.weight": keys["mtp.shared_head.weight"],
    }
    return MtpLayer(module, path, names, keys, wanted, copies)


def _path_of(model: nn.Module, part: nn.Module) -> str:
    return next(path for path, module in model.named_modules() if module is part)


def _type_of(tensor: Tensor) -> TensorType:
    return TensorType(DTYPES[str(tensor.dtype)], tuple(tensor.shape))


def _unknown(main: nn.Module, why: str) -> GraphError:
    return GraphError(
        "unknown-draft",
        f"transformers cannot build the draft layers of `{type(main).__name__}`: {why}",
        hint="pass a draft module of your own, or compile with draft_tokens=0",
    )
