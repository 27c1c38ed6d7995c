"""FP8 with a scale per block, as DeepSeek publishes its models: ``number = code * scale_inv``.

Source: DeepSeek-V3 README_WEIGHTS.md, section "FP8 Weight Documentation". A tensor is in this form
if it has scales, whatever its element format: one of float8 without scales is damage, and other
tensors of one byte are no float8.
"""

from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.checkpoint.weight_place import (
    StoredArray,
    StoredArrays,
    WeightPlace,
    WeightPlaces,
    plain_place,
    require_elements,
    require_shape,
)
from ascendfx.quant_passes.formats.float8 import E4M3FN, E5M2
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import PerBlock
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor

SCALE_SUFFIX = "_scale_inv"
"""What follows the name of a weight in the name of its scales."""

_FLOAT8 = {
    np.dtype(ml_dtypes.float8_e4m3fn): E4M3FN(),
    np.dtype(ml_dtypes.float8_e5m2): E5M2(),
}


def block_float8_places(stored: StoredArrays, block: tuple[int, int]) -> WeightPlaces:
    """Return where the weights of a checkpoint are, those in FP8 and all others.

    Args:
        stored: The tensors of the files.
        block: Rows and columns of a block, from ``weight_block_size`` of the configuration. It
            cannot be told from shapes: 576 rows have five blocks of 128, and of 116 to 143.

    Raises:
        GraphError: `missing-tensor`: float8 without scales, scales of nothing; `wrong-shape`: not
            the scales of these blocks; `tensor-format`.
    """
    places: WeightPlaces = {}
    for name, tensor in stored.items():
        if name.endswith(SCALE_SUFFIX):
            if name.removesuffix(SCALE_SUFFIX) not in stored:
                raise _alone(name, "scales", name.removesuffix(SCALE_SUFFIX))
        elif name + SCALE_SUFFIX in stored:
            places[name] = _place(name, tensor, stored[name + SCALE_SUFFIX], PerBlock(*block))
        elif tensor.format in _FLOAT8:
            raise _alone(name, f"a weight in {tensor.format}", name + SCALE_SUFFIX)
        else:
            places[name] = plain_place(name, tensor)
    return places


def _alone(name: str, what: str, other: str) -> GraphError:
    reason = f"tensor `{name}` is {what}, and `{other}` is not in the files"
    return GraphError("missing-tensor", reason, hint="weights in float8 and scales come in pairs")


def _place(name: str, codes: StoredArray, scales: StoredArray, block: PerBlock) -> WeightPlace:
    require_elements(name, codes, *(each.name for each in _FLOAT8))
    require_elements(name + SCALE_SUFFIX, scales, "float32", "bfloat16", "float16")
    if len(codes.shape) != 2:
        reason = f"tensor `{name}` in blocks has shape {list(codes.shape)}"
        raise GraphError("wrong-shape", reason, hint="weights in blocks are [out, in]")
    why = f"`{name}` is {list(codes.shape)} in blocks of {block.rows} by {block.columns}, as "
    why += "`weight_block_size` of config.json says"
    require_shape(name + SCALE_SUFFIX, scales, block.scale_shape(codes.shape), why)
    return WeightPlace(
        codes.shape, None, lambda: SavedWeight(_read(name, codes.load(), scales.load(), block))
    )


def _read(
    name: str, stored: NDArray[Any], scales: NDArray[Any], block: PerBlock
) -> QuantizedTensor:
    codes, form = stored.view(np.uint8), _FLOAT8[stored.dtype]
    scale = scales.astype(np.float32)
    wrong = ~np.isfinite(scale) | (scale < 0)
    if wrong.any():
        i, j = np.argwhere(wrong)[0].tolist()
        reason = f"`{name}{SCALE_SUFFIX}` is {scale[i, j]} at [{i}, {j}]"
        raise GraphError("bad-scale", reason, hint="download the checkpoint again")
    _refuse_special(name, codes, form)
    empty = scale == 0
    if empty.any():  # a block of zeros, whatever its codes: a scale has to be positive here
        codes = np.where(block.spread(empty, codes.shape), np.uint8(0), codes)
        scale = np.where(empty, np.float32(1), scale)
    affine = Affine(scale, None, block, compute=DType.F32)
    return QuantizedTensor(codes, affine, form)


def _refuse_special(name: str, codes: NDArray[np.uint8], form: E4M3FN | E5M2) -> None:
    """Refuse codes of NaN and infinities; they are those above the largest finite one."""
    for row, each in enumerate(codes):
        magnitude = each & 0x7F
        if each.size and magnitude.max() > form.largest_code:
            column = int((magnitude > form.largest_code).argmax())
            reason = f"tensor `{name}` has an infinity or NaN at [{row}, {column}]"
            raise GraphError("values-not-finite", reason, hint="download the checkpoint again")
