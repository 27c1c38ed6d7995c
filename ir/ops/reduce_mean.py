"""Mean over axes."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.reduction import Reduction


@dataclass(frozen=True, slots=True)
class ReduceMean(Reduction):
    """The mean over ``axes``; reduced axes stay with size one when ``keep`` is set.

    Numerics: `reference` does not round; kernels accumulate in float32.
    """

    mnemonic: ClassVar[str] = "reduce_mean"

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Reduce."""
        (a,) = operands
        return (np.asarray(np.mean(a, axis=self.axes, keepdims=self.keep)),)
