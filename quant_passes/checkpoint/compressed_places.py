"""Reads compressed-tensors: what ``quantization_config`` says about the tensors of the files."""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.tensor_source import dtype_of_array
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint import compressed_names as names
from ascendfx.quant_passes.checkpoint.module_patterns import matches
from ascendfx.quant_passes.checkpoint.saved_weight import Activation, SavedWeight, StaticInputs
from ascendfx.quant_passes.checkpoint.weight_place import (
    StoredArrays,
    WeightPlace,
    WeightPlaces,
    finite,
    part_of,
    plain_place,
    require_elements,
    require_shape,
)
from ascendfx.quant_passes.formats.format import Format
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.packing import words32
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import Granularity, PerChannel, PerTensor
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor

_PACKED, _SCALE = "weight_packed", "weight_scale"
_BESIDE = (_SCALE, "weight_shape", "weight_zero_point", "input_scale", "input_zero_point")


@dataclass(frozen=True, slots=True)
class _Stored:
    """A weight that is stored as codes.

    Attributes:
        stored: The tensors of the files.
        module: Name of the weight without `weight`.
        shape: ``[out, in]``.
        format: Of the codes.
        granularity: Which weights share a scale.
        inputs: What the configuration says of inputs.
    """

    stored: StoredArrays
    module: str
    shape: tuple[int, ...]
    format: Format
    granularity: Granularity
    inputs: Mapping[str, Any] | None


def compressed_places(stored: StoredArrays, quantization: Mapping[str, Any]) -> WeightPlaces:
    """Return where the weights of a checkpoint are.

    Args:
        stored: The tensors of the files.
        quantization: ``quantization_config`` of the configuration.

    Raises:
        GraphError: `bad-description`: a group that is not read, or codes of no group;
            `missing-tensor`, `wrong-shape`, `tensor-format`.
    """
    groups = quantization.get("config_groups")
    if not isinstance(groups, Mapping) or not all(isinstance(g, Mapping) for g in groups.values()):
        raise names.refused("no `config_groups` of objects", "groups with targets and weights")
    places: WeightPlaces = {}
    for name, tensor in stored.items():
        head, _, last = name.rpartition(".")
        if last == _PACKED or (last == "weight" and f"{head}.{_SCALE}" in stored):
            places[f"{head}.weight"] = _place(stored, head, _group(groups, head))
        elif last not in _BESIDE:
            places[name] = plain_place(name, tensor)
        elif not {f"{head}.weight", f"{head}.{_PACKED}"} & stored.keys():
            part_of(stored, f"{head}.weight", name)
    return places


def _group(groups: Mapping[str, Mapping[str, Any]], module: str) -> Mapping[str, Any]:
    """Return the group of a module: by name, by pattern, or that of all linear layers."""
    for group in groups.values():
        if any(matches(target, module) for target in group.get("targets", ())):
            return group
    for group in groups.values():
        if "Linear" in group.get("targets", ()):
            return group
    raise names.refused(f"no group for the codes of `{module}`", "groups that have their modules")


def _place(stored: StoredArrays, module: str, group: Mapping[str, Any]) -> WeightPlace:
    weights: Any = group.get("weights")
    if not isinstance(weights, Mapping):
        raise names.refused(f"a group without `weights` for `{module}`", "groups with `weights`")
    form, grain = names.format_in(weights), names.granularity_in(weights)
    packed, why = f"{module}.{_PACKED}", f"`{module}` is {form.name} per {grain.name}"
    if packed in stored:
        sizes = part_of(stored, f"{module}.weight_shape", packed)
        require_shape(f"{module}.weight_shape", sizes, (2,), why)
        out, columns = (int(size) for size in sizes.load())
        wanted = out, -(-columns * int(form.bits) // 32)
        require_shape(packed, stored[packed], wanted, f"{why}, {[out, columns]}")
        require_elements(packed, stored[packed], "int32")
        shape: tuple[int, ...] = (out, columns)
    else:
        weight = stored[f"{module}.weight"]
        allowed = "int8" if isinstance(form, Integer) else "float8_e4m3fn"
        require_elements(f"{module}.weight", weight, allowed)
        shape = weight.shape
    scale = part_of(stored, f"{module}.{_SCALE}", f"{module}.weight")
    if not isinstance(grain, PerTensor):
        require_shape(f"{module}.{_SCALE}", scale, grain.scale_shape(shape), why)
    require_elements(f"{module}.{_SCALE}", scale, "float32", "bfloat16", "float16")
    inputs = group.get("input_activations")
    by_token = (
        isinstance(form, Integer)
        and isinstance(grain, PerChannel)
        and inputs is not None
        and (inputs.get("dynamic"), inputs.get("num_bits", 8)) == (True, 8)
        and f"{module}.weight_zero_point" not in stored
    )
    read = partial(_read, _Stored(stored, module, shape, form, grain, inputs))
    return WeightPlace(shape, None, read, by_token, int(form.bits))


def _read(of: _Stored) -> SavedWeight:
    packed = of.stored.get(f"{of.module}.{_PACKED}")
    if packed is None:
        codes = _part(of, "weight", as_codes=True).view(of.format.codes)
    else:
        codes = words32.unpack(packed.load(), int(of.format.bits), of.shape[1])
    scale = _part(of, _SCALE)
    dtype = dtype_of_array(scale)
    wide = scale.astype(np.float32).reshape(of.granularity.scale_shape(of.shape))
    # The library computes in the format of the scales. Products of codes have at most 16 digits
    # for bfloat16, and a float32 has room for these: rounded once there, and once here.
    affine = Affine(wide, _zero(of, wide.shape), of.granularity, compute=DType.F32, stored=dtype)
    return SavedWeight(QuantizedTensor(codes, affine, of.format), _activation(of))


def _zero(of: _Stored, shape: tuple[int, ...]) -> NDArray[np.float32] | None:
    stored = of.stored.get(f"{of.module}.weight_zero_point")
    if stored is None:
        return None
    zero = stored.load()
    if zero.dtype == np.int32:
        zero = words32.unpack(zero, int(of.format.bits), shape[0], axis=0)
    return zero.astype(np.float32).reshape(shape) if zero.any() else None


def _activation(of: _Stored) -> Activation:
    if of.inputs is None:
        return None
    if of.inputs.get("dynamic"):
        return "dynamic"
    scale = float(_part(of, "input_scale").reshape(-1)[0])
    zero = of.stored.get(f"{of.module}.input_zero_point")
    return StaticInputs(scale, 0 if zero is None else int(zero.load().reshape(-1)[0]))


def _part(of: _Stored, part: str, *, as_codes: bool = False) -> NDArray[Any]:
    name = f"{of.module}.{part}"
    values = part_of(of.stored, name, f"{of.module}.weight").load()
    return values if as_codes else finite(name, values)
