"""What a checkpoint holds of one weight: numbers or codes, and how its inputs are quantized."""

from dataclasses import dataclass
from typing import Any, Literal, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.weight_algorithm import StoredWeight


@dataclass(frozen=True, slots=True)
class StaticInputs:
    """Int8 inputs with a scale that calibration found: ``code = round(x / scale) + zero``.

    Attributes:
        scale: Positive; a float32.
        zero: The code of 0, from -128 to 127.

    Raises:
        GraphError: `bad-scale`.
    """

    scale: float
    zero: int = 0

    def __post_init__(self) -> None:
        rounded = np.float32(self.scale)
        if not (np.isfinite(rounded) and rounded > 0 and self.zero in range(-128, 128)):
            reason = f"inputs have scale {self.scale} and zero point {self.zero}"
            hint = "a scale is positive and finite, a zero point a code of int8"
            raise GraphError("bad-scale", reason, hint=hint)
        object.__setattr__(self, "scale", float(rounded))


Activation: TypeAlias = Literal["dynamic"] | StaticInputs | None
"""How inputs meet codes: int8 with a scale per token, int8 with fixed scales, or not quantized."""


@dataclass(frozen=True, slots=True, eq=False)
class SavedWeight:
    """A weight as it is written, or as it was read.

    Attributes:
        weight: Numbers of any shape, or codes ``[out, in]``.
        activation: What the inputs become.
        bias: ``[out]``, which static inputs need: their zero points are folded into it.
    """

    weight: StoredWeight | NDArray[Any]
    activation: Activation = None
    bias: NDArray[Any] | None = None
