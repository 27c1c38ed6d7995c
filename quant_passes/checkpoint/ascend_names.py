"""Names of ascendV1: its types, and what stands beside ``X.weight``.

Source: msModelSlim 3de0a3c4 (saver), vllm-ascend 182b75ea (loader).
"""

import re

DESCRIPTION = "quant_model_description.json"
STEM = "quant_model_weights"
VERSION = "1.0.0"

FLOAT = "FLOAT"
W8A8 = "W8A8"
W8A8_DYNAMIC = "W8A8_DYNAMIC"
W8A16 = "W8A16"
W4A8_DYNAMIC = "W4A8_DYNAMIC"
CACHE = "FAQuant"

LATENT_READER = ".self_attn.kv_b_proj.weight"
"""End of the weight whose inputs are the normed latent: what the cache holds."""
CACHE_SCALE = ".self_attn.fa_k.scale"
CACHE_ZERO = ".self_attn.fa_k.offset"
EMBEDDING = "embed_tokens"
"""Its tensor stands before those of all layers."""

SLICES = 16
"""Parts of the input in which the bias of a split weight is stored, for up to 16 devices."""

_CACHE_SCALE = re.compile(r".*\.self_attn\.fa_[qkv]\.(scale|offset)")
_ROUTED = re.compile(r".*\.mlp\.experts\.\d+\.(gate|up|down)_proj\.weight")


def sibling(weight: str, kind: str) -> str:
    """Return the name of what belongs to a weight: of ``X.weight``, ``X.<kind>``."""
    return weight.removesuffix("weight") + kind


def is_cache_scale(name: str) -> bool:
    """Whether a tensor is a scale of the int8 latent cache."""
    return _CACHE_SCALE.fullmatch(name) is not None


def is_routed_expert(name: str) -> bool:
    """Whether a weight is one of a routed expert."""
    return _ROUTED.fullmatch(name) is not None


def bias_slices(weight: str) -> int:
    """Return how many parts the scale bias of an int4 weight has.

    Weights that are split along their inputs over devices have one per device.
    """
    return SLICES if weight.endswith(("down_proj.weight", "o_proj.weight")) else 1
