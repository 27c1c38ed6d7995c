"""What a choice changes in the outputs of one matrix, on the inputs that calibration kept."""

from dataclasses import dataclass

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.quant_passes.mixed_precision.fake_inputs import fake_inputs
from ascendfx.quant_passes.mixed_precision.made_weight import MadeWeight


@dataclass(frozen=True, slots=True)
class Energy:
    """Sums of squares over tokens and outputs.

    Attributes:
        noise: Of what outputs are off.
        signal: Of the outputs.
    """

    noise: float = 0.0
    signal: float = 0.0

    def __add__(self, other: "Energy") -> "Energy":
        return Energy(self.noise + other.noise, self.signal + other.signal)

    @property
    def share(self) -> float:
        """Noise over signal; 0 without signal: nothing passed, so nothing is off."""
        return self.noise / self.signal if self.signal else 0.0


def projection_error(weight: Array, made: MadeWeight, inputs: Array, tokens: int) -> Energy:
    """Return the energies over all tokens, as those of the kept ones tell them.

    ``sum |Q(x) Q(W)^T - x W^T|^2`` beside ``sum |x W^T|^2``, both times tokens over kept tokens.

    Args:
        weight: ``[out, in]``.
        made: What becomes of it.
        inputs: Tokens that were kept, ``[kept, in]``.
        tokens: How many there were.
    """
    if not len(inputs):
        return Energy()
    x = inputs.astype(np.float64, copy=False)
    true = x @ weight.T.astype(np.float64)
    own = fake_inputs(x, made.activation) @ made.numbers.T.astype(np.float64)
    scale = tokens / len(inputs)
    return Energy(float(np.square(own - true).sum()) * scale, float(np.square(true).sum()) * scale)
