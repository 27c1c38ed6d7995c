"""Normalisation by the root mean square."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.pointwise import apply_function
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class RmsNorm(Op):
    r"""``y = x / sqrt(mean(x^2) + eps) * gain`` over the last axis.

    Source: Zhang and Sennrich, arXiv 1910.07467, eq. 4. ``x`` is ``[*b, k]``, ``gain`` is ``[k]``.

    Numerics: mean and scaling in float32, one rounding at the end.

    Attributes:
        eps: Captured from the model, never assumed.
    """

    mnemonic: ClassVar[str] = "rms_norm"

    eps: float

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the type of ``x``.

        Raises:
            OpTypeError: The gain is not as long as the last axis, or formats differ.
        """
        x, gain = operands
        if x.rank < 1 or gain.shape != x.shape[-1:] or x.dtype is not gain.dtype:
            raise OpTypeError(f"rms_norm: the gain {gain} does not fit {x}")
        return (x,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Normalise."""
        x, gain = operands
        mean = np.sum(x * x, axis=-1, keepdims=True) / x.shape[-1]
        return (x / apply_function("sqrt", mean + self.eps) * gain,)
