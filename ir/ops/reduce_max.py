"""Maximum over axes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.reduction import Reduction


@dataclass(frozen=True, slots=True)
class ReduceMax(Reduction):
    """The maximum over ``axes``; reduced axes stay with size one when ``keep`` is set.

    Numerics: `reference` does not round; kernels accumulate in float32.
    """

    mnemonic: ClassVar[str] = "reduce_max"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Reduce."""
        (a,) = operands
        return (np.asarray(np.max(a, axis=self.axes, keepdims=self.keep)),)
