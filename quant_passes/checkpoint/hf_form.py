"""Writes what Hugging Face's loaders read: numbers, and DeepSeek's FP8 blocks as they are."""

from dataclasses import dataclass
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.checkpoint.block_float8 import SCALE_SUFFIX
from ascendfx.quant_passes.checkpoint.planned_tensor import (
    Part,
    Plan,
    PlannedTensor,
    as_planned,
    not_storable,
    numbers_as_planned,
)
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.scaling.granularity import PerBlock

_FP8 = np.dtype(ml_dtypes.float8_e4m3fn)


@dataclass(frozen=True, slots=True)
class HfForm:
    """Weights in the element format of the model: of codes, the numbers that they stand for.

    So every format can be tried with programs that do not know it. Only FP8 in blocks stays codes.
    """

    name = "hf"
    stem = "model"

    def parts(self, tensor: PlannedTensor) -> tuple[Part, ...]:
        """Return the tensors of files that hold a weight."""
        block = _block(tensor)
        if block is None:
            return (Part(tensor.name, np.dtype(tensor.dtype.numpy), tensor.shape),)
        scales = Part(
            tensor.name + SCALE_SUFFIX, np.dtype(np.float32), block.scale_shape(tensor.shape)
        )
        return Part(tensor.name, _FP8, tensor.shape), scales

    def encode(self, tensor: PlannedTensor, saved: SavedWeight) -> dict[str, NDArray[Any]]:
        """Return what `parts` announced, by name.

        Raises:
            GraphError: `not-as-planned`.
        """
        if _block(tensor) is None:
            return {tensor.name: numbers_as_planned(tensor, saved)}
        weight = as_planned(tensor, saved)
        scales = weight.affine.scale.astype(np.float32)
        return {tensor.name: weight.codes.view(_FP8), tensor.name + SCALE_SUFFIX: scales}

    def check(self, plan: Plan) -> None:
        """Check that all blocks have the one size that the configuration can name.

        Raises:
            GraphError: `not-storable`.
        """
        first: PlannedTensor | None = None
        for tensor in plan:
            if _block(tensor) is None:
                continue
            first = first or tensor
            if _block(tensor) != _block(first):
                why = f"the blocks of `{first.name}` have another size"
                raise not_storable(self.name, tensor, why, "use one block size")

    def files(self, plan: Plan, config: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return ``config.json``."""
        plain = {key: each for key, each in config.items() if key != "quantization_config"}
        block = next(filter(None, map(_block, plan)), None)
        if block is not None:
            plain["quantization_config"] = {
                "activation_scheme": "dynamic",
                "fmt": "e4m3",
                "quant_method": "fp8",
                "weight_block_size": [block.rows, block.columns],
            }
        return {"config.json": plain}


def _block(tensor: PlannedTensor) -> PerBlock | None:
    """Return the blocks of a weight that stays FP8."""
    scheme = tensor.scheme
    if scheme is None or not isinstance(scheme.format, E4M3FN) or not scheme.symmetric:
        return None
    return scheme.granularity if isinstance(scheme.granularity, PerBlock) else None
