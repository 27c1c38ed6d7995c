"""How compressed-tensors spells formats, granularities and inputs in ``quantization_config``.

Source: compressed-tensors 0.20.1, by running it.
"""

from collections.abc import Mapping
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint.planned_tensor import Scheme
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.format import Format
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import (
    Granularity,
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
)

METHOD = "compressed-tensors"
PACKED = "pack-quantized"
INTEGERS = "int-quantized"
FLOATS = "float-quantized"
NAIVE = "naive-quantized"
MIXED = "mixed-precision"
VERSION = "0.20.1"


def layout_of(scheme: Scheme) -> str:
    """Return how the codes of a scheme are stored."""
    if isinstance(scheme.format, Integer):
        return INTEGERS if scheme.activation else PACKED
    return FLOATS if scheme.activation else NAIVE


def described(scheme: Scheme) -> dict[str, Any]:
    """Return a scheme as a group of the configuration, without its targets."""
    group = {
        "format": layout_of(scheme),
        "weights": _weights(scheme),
        "input_activations": _inputs(scheme),
        "output_activations": None,
    }
    return {key: each for key, each in group.items() if each is not None}


def _weights(scheme: Scheme) -> dict[str, Any]:
    grain = scheme.granularity
    found: dict[str, Any] = {
        "num_bits": int(scheme.format.bits),
        "type": _type(scheme),
        "symmetric": scheme.symmetric,
        "strategy": grain.name,
        "dynamic": False,
    }
    if isinstance(grain, PerGroup):
        found["group_size"] = grain.size
    if isinstance(grain, PerBlock):
        found["block_structure"] = [grain.rows, grain.columns]
    return found


def _inputs(scheme: Scheme) -> dict[str, Any] | None:
    if scheme.activation is None:
        return None
    found: dict[str, Any] = {"num_bits": 8, "type": _type(scheme)}
    if scheme.activation == "static":
        return found | {"symmetric": False, "strategy": "tensor", "dynamic": False}
    found |= {"symmetric": True, "dynamic": True}
    if isinstance(scheme.granularity, PerBlock):
        return found | {"strategy": "group", "group_size": scheme.granularity.columns}
    return found | {"strategy": "token"}


def _type(scheme: Scheme) -> str:
    return "int" if isinstance(scheme.format, Integer) else "float"


def format_in(weights: Mapping[str, Any]) -> Format:
    """Return the format that a group names.

    Raises:
        GraphError: `bad-description`.
    """
    bits, kind = weights.get("num_bits", 8), weights.get("type", "int")
    if kind == "float" and bits == 8:
        return E4M3FN()
    if kind == "int" and bits in range(2, 9):
        return Integer(bits)
    raise refused(f"codes of {bits} bits of type {kind!r}", "int2 to int8 and 8-bit floats")


def granularity_in(weights: Mapping[str, Any]) -> Granularity:
    """Return the granularity that a group names.

    Raises:
        GraphError: `bad-description`.
    """
    size, block = weights.get("group_size"), weights.get("block_structure")
    match weights.get("strategy") or ("group" if size else "tensor"):
        case "tensor":
            return PerTensor()
        case "channel":
            return PerChannel()
        case "token":
            return PerToken()
        case "group" if isinstance(size, int):
            return PerGroup(size)
        case "block" if isinstance(block, list) and len(block) == 2:  # pyright: ignore[reportUnknownArgumentType]
            return PerBlock(*block)
        case other:
            raise refused(f"strategy {other!r}", "tensor, channel, group and block")


def refused(what: str, known: str) -> GraphError:
    """Return the error for something in the configuration that is not read."""
    reason = f"`quantization_config` of config.json has {what}"
    return GraphError("bad-description", reason, hint=f"read are {known}")
