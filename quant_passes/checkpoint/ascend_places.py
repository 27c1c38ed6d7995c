"""Reads ascendV1: what the types of the description say about the tensors of the files."""

from collections.abc import Mapping
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint import ascend_names as names
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
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.packing import rows_in_nibbles
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import Granularity, PerChannel, PerGroup
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor

_CODES = (names.W8A8, names.W8A8_DYNAMIC, names.W8A16, names.W4A8_DYNAMIC)
_HEAD = ("version", "model_quant_type", "group_size", "metadata", "optional", "fa_quant_type")


def ascend_places(stored: StoredArrays, description: Mapping[str, Any]) -> WeightPlaces:
    """Return where the weights of a checkpoint are.

    Args:
        stored: The tensors of the files.
        description: The content of ``quant_model_description.json``.

    Raises:
        GraphError: `bad-description`: a tensor has no type or an unknown one, or it is a version
            that is not read; `missing-tensor`, `wrong-shape`, `tensor-format`.
    """
    _check_version(description)
    places: WeightPlaces = {}
    for name, tensor in stored.items():
        kind = description.get(name)
        if kind in {names.FLOAT, names.CACHE}:
            places[name] = plain_place(name, tensor)
        elif kind not in _CODES:
            said = "says nothing of" if kind is None else f"calls {kind!r}"
            reason = f"{names.DESCRIPTION} {said} tensor `{name}`"
            hint = f"types that are read: {', '.join((names.FLOAT, *_CODES, names.CACHE))}"
            raise GraphError("bad-description", reason, hint=hint)
        elif name.endswith(".weight"):
            places[name] = _place(stored, name, kind)
    missing = [name for name in description if name not in stored and name not in _HEAD]
    if missing:
        reason = f"tensor `{missing[0]}` of {names.DESCRIPTION} is not in the files"
        raise GraphError("missing-tensor", reason, hint="download the checkpoint again")
    return places


def _check_version(description: Mapping[str, Any]) -> None:
    version, kinds = description.get("version"), description.values()
    if version != names.VERSION and names.W4A8_DYNAMIC in kinds:
        reason = f"{names.DESCRIPTION} is of version {version!r}, where int4 is stored otherwise"
        hint = f"write it again with a msModelSlim that writes version {names.VERSION}"
        raise GraphError("bad-description", reason, hint=hint)


def _place(stored: StoredArrays, name: str, kind: str) -> WeightPlace:
    weight = stored[name]
    require_elements(name, weight, "int8")
    scale = part_of(stored, names.sibling(name, "weight_scale"), name)
    if len(weight.shape) != 2 or len(scale.shape) != 2:
        reason = f"`{name}` is {list(weight.shape)}, its scales are {list(scale.shape)}"
        raise GraphError("wrong-shape", reason, hint="both have two axes")
    rows, columns = weight.shape
    shape = (2 * rows if kind == names.W4A8_DYNAMIC else rows, columns)
    count = scale.shape[1]
    grouped = kind == names.W8A16 and count > 1 and columns % count == 0
    grain: Granularity = PerGroup(columns // count) if grouped else PerChannel()
    why = f"`{name}` of type {kind} is {list(shape)}"
    for part in ("weight_scale", "weight_offset"):
        place = names.sibling(name, part)
        require_shape(place, part_of(stored, place, name), grain.scale_shape(shape), why)
        require_elements(place, stored[place], "float32", "bfloat16")
    if kind == names.W8A8:
        for part, size in (("input_scale", 1), ("input_offset", 1), ("quant_bias", rows)):
            place = names.sibling(name, part)
            require_shape(place, part_of(stored, place, name), (size,), why)
    by_token = kind in {names.W8A8_DYNAMIC, names.W4A8_DYNAMIC}
    bits = 4 if kind == names.W4A8_DYNAMIC else 8
    return WeightPlace(shape, None, partial(_read, stored, name, kind, grain), by_token, bits)


def _read(stored: StoredArrays, name: str, kind: str, grain: Granularity) -> SavedWeight:
    codes = stored[name].load()
    if kind == names.W4A8_DYNAMIC:
        codes = rows_in_nibbles.unpack(codes)
    scale, offset = (_part(stored, name, part) for part in ("weight_scale", "weight_offset"))
    zero = offset.astype(np.float32) if offset.any() else None
    affine = Affine(scale.astype(np.float32), zero, grain)
    weight = QuantizedTensor(codes, affine, Integer(4 if kind == names.W4A8_DYNAMIC else 8))
    if kind != names.W8A8:
        activation: Activation = None if kind == names.W8A16 else "dynamic"
        return SavedWeight(weight, activation)
    inputs = StaticInputs(
        float(_part(stored, name, "input_scale")[0]), int(_part(stored, name, "input_offset")[0])
    )
    return SavedWeight(weight, inputs, _bias(stored, name, weight, inputs))


def _bias(
    stored: StoredArrays, name: str, weight: QuantizedTensor, inputs: StaticInputs
) -> NDArray[np.float32] | None:
    """Return what of the stored bias is not the zero point of the inputs; None if nothing is."""
    rest = _part(stored, name, "quant_bias").astype(np.int64)
    rest = rest + weight.codes.sum(1, dtype=np.int64) * inputs.zero
    if not rest.any():
        return None
    return (rest * (np.float32(inputs.scale) * weight.affine.scale[:, 0])).astype(np.float32)


def _part(stored: StoredArrays, name: str, part: str) -> NDArray[Any]:
    place = names.sibling(name, part)
    return finite(place, part_of(stored, place, name).load())
