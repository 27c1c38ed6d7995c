"""Inputs of projections as the numbers that their int8 codes stand for."""

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.quant_passes.checkpoint.saved_weight import Activation, StaticInputs

_SMALLEST = 1e-30


def fake_inputs(x: Array, activation: Activation) -> Array:
    """Return rows ``[.., in]`` as codes have them.

    Args:
        x: The inputs.
        activation: A scale for each row, a fixed scale and zero point, or None: as they are.
    """
    if activation is None:
        return x
    if isinstance(activation, StaticInputs):
        scale, zero = x.dtype.type(activation.scale), activation.zero
        codes = np.clip(np.rint(x / scale) + zero, -128, 127)
        return (codes - zero) * scale
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), _SMALLEST) / x.dtype.type(127)
    return np.rint(x / scale) * scale
