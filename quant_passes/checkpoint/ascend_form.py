"""Writes ascendV1, the form of msModelSlim that vllm-ascend loads (``--quantization ascend``).

============  ==========================================================================
type          tensors beside ``weight``, which is int8 ``[out, in]``
============  ==========================================================================
FLOAT         none; ``weight`` as it was
W8A8_DYNAMIC  ``weight_scale``, ``weight_offset`` (0), float32 ``[out, 1]``
W8A16         the same, or ``[out, in / g]``
W8A8          the same, ``input_scale`` and ``input_offset`` float32 ``[1]``, ``quant_bias`` int32
              ``[out]``, ``deq_scale`` ``[out]``: float32 for models in bfloat16, else int64 that
              holds the bits of a float32
W4A8_DYNAMIC  int4, rows in pairs ``[out / 2, in]``; ``weight_scale``, ``weight_offset``, and
              ``scale_bias`` float32 ``[out, 1]``, or ``[out, 16]`` where devices split the inputs
============  ==========================================================================

Stored zero points mean ``(code - offset) * scale``. The kernel of W4A8 splits an int8 input in two
nibbles, ``x = 16 high + (low - 8) + 8``; ``scale_bias`` is what the last term adds, ``8 sum(w)``.

Source: msModelSlim 3de0a3c4 (saver), vllm-ascend 182b75ea (loader).
"""

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint import ascend_names as names
from ascendfx.quant_passes.checkpoint.ascend_limits import check_together
from ascendfx.quant_passes.checkpoint.planned_tensor import (
    Part,
    Plan,
    PlannedTensor,
    as_planned,
    not_storable,
    numbers_as_planned,
)
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight, StaticInputs
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.packing import rows_in_nibbles
from ascendfx.quant_passes.scaling.granularity import PerChannel, PerGroup
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor

_F32, _I8, _I32, _I64 = (np.dtype(each) for each in (np.float32, np.int8, np.int32, np.int64))


@dataclass(frozen=True, slots=True)
class AscendForm:
    """ascendV1, version 1.0.0.

    Attributes:
        bf16: Whether the model computes in bfloat16: the element format of ``deq_scale`` depends on
            it, and a loader that expects the other one reads nonsense.
        int4_elsewhere: Allow int4 outside of routed experts, which vllm-ascend has no kernel for.
    """

    bf16: bool = True
    int4_elsewhere: bool = False
    name = "ascend"
    stem = names.STEM

    def kind(self, tensor: PlannedTensor) -> str:
        """Return the type of a weight, as the description spells it.

        Raises:
            GraphError: `not-storable`.
        """
        scheme = tensor.scheme
        if scheme is None:
            return names.CACHE if names.is_cache_scale(tensor.name) else names.FLOAT
        form, grain = scheme.format, scheme.granularity
        if not isinstance(form, Integer) or not form.signed or form.bits not in {4, 8}:
            raise self._refused(tensor, "codes are int8 or int4", "choose another form or format")
        if not scheme.symmetric or scheme.scales not in {DType.F32, DType.BF16}:
            raise self._refused(
                tensor, "vllm-ascend loads float32 scales without zero points", "use a ScaleRule()"
            )
        if len(tensor.shape) != 2 or not tensor.name.endswith(".weight"):
            raise self._refused(tensor, "codes are of `X.weight` [out, in]", "write experts singly")
        if scheme.activation is None and form.bits == 8:
            if isinstance(grain, PerChannel | PerGroup):
                return names.W8A16
        elif isinstance(grain, PerChannel):
            if form.bits == 8:
                return names.W8A8 if scheme.activation == "static" else names.W8A8_DYNAMIC
            if scheme.activation == "dynamic":
                self._check_int4(tensor)
                return names.W4A8_DYNAMIC
        raise self._refused(
            tensor,
            "there are W8A8, W8A8_DYNAMIC and W4A8_DYNAMIC with a scale per channel, and W8A16",
            "int4 wants int8 inputs (`activation: dynamic`), and these want a scale per channel "
            "(`granularity: channel`)",
        )

    def parts(self, tensor: PlannedTensor) -> tuple[Part, ...]:
        """Return the tensors of files that hold a weight.

        Raises:
            GraphError: `not-storable`.
        """
        kind, scheme = self.kind(tensor), tensor.scheme
        if scheme is None:
            return (Part(tensor.name, np.dtype(tensor.dtype.numpy), tensor.shape),)
        out, columns = tensor.shape
        scales = scheme.granularity.scale_shape(tensor.shape)
        rows = out // 2 if kind == names.W4A8_DYNAMIC else out
        found: dict[str, tuple[np.dtype[Any], tuple[int, ...]]] = {
            "weight": (_I8, (rows, columns)),
            "weight_scale": (_F32, scales),
            "weight_offset": (_F32, scales),
        }
        if kind == names.W4A8_DYNAMIC:
            found["scale_bias"] = _F32, (out, names.bias_slices(tensor.name))
        if kind == names.W8A8:
            found |= {"input_scale": (_F32, (1,)), "input_offset": (_F32, (1,))}
            found |= {"quant_bias": (_I32, (out,)), "deq_scale": (self._deq, (out,))}
        return tuple(
            Part(names.sibling(tensor.name, part), form, shape)
            for part, (form, shape) in found.items()
        )

    def encode(self, tensor: PlannedTensor, saved: SavedWeight) -> dict[str, NDArray[Any]]:
        """Return what `parts` announced, by name.

        Raises:
            GraphError: `not-as-planned`; `bad-scale`: a bias beyond int32.
        """
        kind = self.kind(tensor)
        if tensor.scheme is None:
            return {tensor.name: numbers_as_planned(tensor, saved)}
        weight = as_planned(tensor, saved)
        scale = weight.affine.scale.astype(np.float32)
        found: dict[str, NDArray[Any]] = {
            "weight": weight.codes,
            "weight_scale": scale,
            "weight_offset": np.zeros_like(scale),
        }
        if kind == names.W4A8_DYNAMIC:
            found["weight"] = rows_in_nibbles.pack(weight.codes)
            found["scale_bias"] = _scale_bias(weight, names.bias_slices(tensor.name))
        if isinstance(saved.activation, StaticInputs):
            found |= self._static(tensor, weight, saved.activation, saved.bias)
        return {names.sibling(tensor.name, part): array for part, array in found.items()}

    def check(self, plan: Plan) -> None:
        """Check what the loader asks of weights that it fuses.

        Raises:
            GraphError: `not-storable`.
        """
        check_together({tensor.name: self.kind(tensor) for tensor in plan})

    def files(self, plan: Plan, config: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return ``config.json`` and the description, which names the type of every tensor."""
        kinds = {tensor.name: self.kind(tensor) for tensor in plan}
        described = {part.name: kinds[each.name] for each in plan for part in self.parts(each)}
        head: dict[str, Any] = {
            "version": names.VERSION,
            "model_quant_type": _most_compressed(set(kinds.values())),
            "group_size": _group_size(plan),
            "metadata": {},
            "optional": {},
        }
        if names.CACHE in kinds.values():
            head["fa_quant_type"] = "FAKQuant"
        plain = {key: each for key, each in config.items() if key != "quantization_config"}
        return {"config.json": plain, names.DESCRIPTION: head | described}

    @property
    def _deq(self) -> np.dtype[Any]:
        return _F32 if self.bf16 else _I64

    def _static(
        self,
        tensor: PlannedTensor,
        weight: QuantizedTensor,
        inputs: StaticInputs,
        bias: NDArray[Any] | None,
    ) -> dict[str, NDArray[Any]]:
        product = np.float32(inputs.scale) * weight.affine.scale.astype(np.float32)[:, 0]
        sums = weight.codes.sum(1, dtype=np.int64) * inputs.zero
        shift = np.zeros(len(sums)) if bias is None else bias.astype(np.float64) / product
        folded = np.rint(shift - sums)
        if not (np.abs(folded) < 2.0**31).all() or not (product > 0).all():
            row = int(np.argmax(~((np.abs(folded) < 2.0**31) & (product > 0))))
            reason = f"`{tensor.name}`: row {row} has scale {product[row]} and bias {folded[row]}"
            raise GraphError("bad-scale", reason, hint="take dynamic inputs for this weight")
        stored = product if self.bf16 else product.view(np.uint32).astype(np.int64)
        return {
            "input_scale": np.array([inputs.scale], np.float32),
            "input_offset": np.array([inputs.zero], np.float32),
            "quant_bias": folded.astype(np.int32),
            "deq_scale": stored,
        }

    def _check_int4(self, tensor: PlannedTensor) -> None:
        slices = names.bias_slices(tensor.name)
        if not self.int4_elsewhere and not names.is_routed_expert(tensor.name):
            raise self._refused(
                tensor, "vllm-ascend loads int4 of routed experts only", "take int8 for this weight"
            )
        if tensor.shape[0] % 2 or tensor.shape[1] % slices:
            why = f"rows come in pairs, and inputs in {slices} parts"
            raise self._refused(tensor, why, "take int8 for this weight")

    def _refused(self, tensor: PlannedTensor, why: str, hint: str) -> GraphError:
        return not_storable(self.name, tensor, why, hint)


def _scale_bias(weight: QuantizedTensor, slices: int) -> NDArray[np.float32]:
    """Return ``8 sum(w)`` of each row, over parts of the inputs; sums of codes are exact."""
    out, columns = weight.shape
    sums = weight.codes.reshape(out, slices, columns // slices).sum(2, dtype=np.int64)
    return (8.0 * sums * weight.affine.scale.astype(np.float64)).astype(np.float32)


def _most_compressed(kinds: set[str]) -> str:
    order = (names.W4A8_DYNAMIC, names.W8A8_DYNAMIC, names.W8A8, names.W8A16)
    return next((kind for kind in order if kind in kinds), names.FLOAT)


def _group_size(plan: Plan) -> int:
    """Return the size of groups, 0 if there are none; `check` allows only one."""
    grains = (each.scheme.granularity for each in plan if each.scheme)
    return next((grain.size for grain in grains if isinstance(grain, PerGroup)), 0)
