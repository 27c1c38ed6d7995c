"""Writes compressed-tensors, which vLLM, vllm-ascend and transformers load.

===============  =======================  ==================================================
layout           schemes                  tensors of ``X.weight``
===============  =======================  ==================================================
int-quantized    int8 or int4 with int8   ``weight`` int8, a byte per code; ``weight_scale``;
                 inputs                   static: ``input_scale``, ``input_zero_point`` ``[1]``
pack-quantized   int2, 3, 4, 8, inputs    ``weight_packed`` int32 (`packing.words32`),
                 not quantized            ``weight_scale``, ``weight_shape`` int64 ``[2]``;
                                          zero points: ``weight_zero_point``, packed along axis 0
float-quantized  FP8, inputs FP8          ``weight`` FP8, ``weight_scale``, also for blocks
naive-quantized  FP8, inputs not          the same
===============  =======================  ==================================================

``number = (code - zero) * scale``, in the element format of the scales. Blocks have
``weight_scale``, not DeepSeek's ``weight_scale_inv``.

Source: compressed-tensors 0.20.1, by running it.
"""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.checkpoint import compressed_names as names
from ascendfx.quant_passes.checkpoint.module_patterns import patterns_of
from ascendfx.quant_passes.checkpoint.planned_tensor import (
    Part,
    Plan,
    PlannedTensor,
    Scheme,
    as_planned,
    not_storable,
    numbers_as_planned,
)
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight, StaticInputs
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.packing import words32
from ascendfx.quant_passes.scaling.granularity import PerBlock, PerChannel, PerGroup, PerTensor
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor

_I8, _I32, _I64, _F32 = (np.dtype(each) for each in (np.int8, np.int32, np.int64, np.float32))
_FP8 = np.dtype(ml_dtypes.float8_e4m3fn)


@dataclass(frozen=True, slots=True)
class CompressedForm:
    """compressed-tensors, a group per scheme; which modules it is of is told by patterns."""

    name = names.METHOD
    stem = "model"

    def parts(self, tensor: PlannedTensor) -> tuple[Part, ...]:
        """Return the tensors of files that hold a weight.

        Raises:
            GraphError: `not-storable`.
        """
        scheme = tensor.scheme
        if scheme is None:
            return (Part(tensor.name, np.dtype(tensor.dtype.numpy), tensor.shape),)
        self._require(tensor, scheme)
        out, columns = tensor.shape
        scales = _scale_shape(scheme, tensor.shape)
        found: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {}
        if names.layout_of(scheme) == names.PACKED:
            bits = int(scheme.format.bits)
            found["weight_packed"] = _I32, (out, -(-columns * bits // 32))
            found["weight_shape"] = _I64, (2,)
            if not scheme.symmetric:
                found["weight_zero_point"] = _I32, (-(-out * bits // 32), scales[1])
        else:
            found["weight"] = _I8 if isinstance(scheme.format, Integer) else _FP8, tensor.shape
        found["weight_scale"] = np.dtype(scheme.scales.numpy), scales
        if scheme.activation == "static":
            found |= {"input_scale": (_F32, (1,)), "input_zero_point": (_I8, (1,))}
        head = tensor.name.removesuffix("weight")
        return tuple(Part(head + part, form, shape) for part, (form, shape) in found.items())

    def encode(self, tensor: PlannedTensor, saved: SavedWeight) -> dict[str, NDArray[Any]]:
        """Return what `parts` announced, by name.

        Raises:
            GraphError: `not-as-planned`; `bad-scale`: zero points that are no codes.
        """
        scheme = tensor.scheme
        if scheme is None:
            return {tensor.name: numbers_as_planned(tensor, saved)}
        weight = as_planned(tensor, saved)
        scale = weight.affine.scale.astype(scheme.scales.numpy)
        found: dict[str, NDArray[Any]] = {
            "weight_scale": scale.reshape(_scale_shape(scheme, tensor.shape))
        }
        if names.layout_of(scheme) == names.PACKED:
            bits = int(scheme.format.bits)
            found["weight_packed"] = words32.pack(weight.codes, bits)
            found["weight_shape"] = np.array(tensor.shape, np.int64)
            if not scheme.symmetric:
                zero = _whole_zero(tensor, weight)
                found["weight_zero_point"] = words32.pack(zero, bits, axis=0)
        else:
            integer = isinstance(scheme.format, Integer)
            found["weight"] = weight.codes if integer else weight.codes.view(_FP8)
        if isinstance(saved.activation, StaticInputs):
            found["input_scale"] = np.array([saved.activation.scale], np.float32)
            found["input_zero_point"] = np.array([saved.activation.zero], np.int8)
        head = tensor.name.removesuffix("weight")
        return {head + part: array for part, array in found.items()}

    def check(self, plan: Plan) -> None:
        """Nothing is asked of weights together."""

    def files(self, plan: Plan, config: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return ``config.json``, whose ``quantization_config`` tells the scheme of each module."""
        modules = {
            tensor.name.removesuffix(".weight"): tensor.scheme
            for tensor in plan
            if len(tensor.shape) == 2 and tensor.name.endswith(".weight")
        }
        schemes = list(dict.fromkeys(filter(None, modules.values())))
        groups: dict[str, Any] = {}
        for number, scheme in enumerate(schemes):
            own = [name for name, each in modules.items() if each == scheme]
            targets = {"targets": patterns_of(own, modules)}
            groups[f"group_{number}"] = targets | names.described(scheme)
        layouts = {names.layout_of(scheme) for scheme in schemes}
        kept = [name for name, each in modules.items() if each is None and "embed" not in name]
        plain = {key: each for key, each in config.items() if key != "quantization_config"}
        if schemes:
            plain["quantization_config"] = {
                "config_groups": groups,
                "format": layouts.pop() if len(layouts) == 1 else names.MIXED,
                "ignore": patterns_of(kept, modules),
                "kv_cache_scheme": None,
                "quant_method": names.METHOD,
                "quantization_status": "compressed",
                "version": names.VERSION,
            }
        return {"config.json": plain}

    def _require(self, tensor: PlannedTensor, scheme: Scheme) -> None:
        if len(tensor.shape) != 2 or not tensor.name.endswith(".weight"):
            raise self._refused(tensor, "codes are of `X.weight` [out, in]", "write experts singly")
        form, grain = scheme.format, scheme.granularity
        if isinstance(form, Integer):
            known = form.signed and form.bits in ({4, 8} if scheme.activation else {2, 3, 4, 8})
            shared = isinstance(grain, PerChannel | PerGroup | PerTensor)
        else:
            known = isinstance(form, E4M3FN) and scheme.activation != "static"
            shared = isinstance(grain, PerChannel | PerBlock | PerTensor)
        if not known:
            why = "codes are int2, 3, 4, 8, with int8 inputs int4 or int8, and float8_e4m3fn"
            raise self._refused(tensor, why, "choose another form or format")
        if not shared:
            why = f"there are no scales per {grain.name} for them"
            raise self._refused(tensor, why, "use a scale per channel (`granularity: channel`)")
        packed = names.layout_of(scheme) == names.PACKED
        if not scheme.symmetric and not (packed and isinstance(grain, PerChannel | PerGroup)):
            why = "zero points are stored per channel or group of packed integers"
            raise self._refused(tensor, why, "use a symmetric rule")

    def _refused(self, tensor: PlannedTensor, why: str, hint: str) -> GraphError:
        return not_storable(self.name, tensor, why, hint)


def _scale_shape(scheme: Scheme, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the shape in which scales are stored: that of a whole tensor has one axis."""
    grain = scheme.granularity
    return (1,) if isinstance(grain, PerTensor) else grain.scale_shape(shape)


def _whole_zero(tensor: PlannedTensor, weight: QuantizedTensor) -> NDArray[np.int8]:
    zero = weight.affine.zero
    low, form = -(1 << (int(weight.format.bits) - 1)), weight.format
    if zero is None:
        raise AssertionError(f"{tensor.name} was planned with zero points")
    if not np.array_equal(zero, np.clip(np.rint(zero), low, -low - 1)):
        reason = f"`{tensor.name}` has zero points that are no codes of {form.name}"
        hint = "use a rule with round_zero and clip_zero"
        raise GraphError("bad-scale", reason, hint=hint)
    return zero.astype(np.int8)
