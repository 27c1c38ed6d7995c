"""Part of an axis."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import Dim, bind_size, simplify_size
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Slice(Op):
    """``y = a[..., start:stop:step, ...]`` on one axis.

    Attributes:
        axis: Counted from zero.
        start: First index, not negative.
        stop: One behind the last index; at most the size of the axis.
        step: Distance, at least 1; only with ``start`` and ``stop`` known now when not 1.
    """

    mnemonic: ClassVar[str] = "slice"

    axis: int
    start: Dim
    stop: Dim
    step: int = 1

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the type of the part.

        Raises:
            OpTypeError: The axis does not exist or the bounds are outside it.
        """
        (a,) = operands
        if not 0 <= self.axis < a.rank or self.step < 1:
            raise OpTypeError(f"slice: {a} has no axis {self.axis}, or step {self.step} is below 1")
        size, length = a.shape[self.axis], simplify_size(self.stop - self.start)
        numbers = isinstance(self.start, int) and isinstance(self.stop, int)
        known = isinstance(size, int) and numbers
        if (known and not 0 <= self.start <= self.stop <= size) or (
            self.step != 1 and not isinstance(length, int)
        ):
            raise OpTypeError(
                f"slice: {self.start}:{self.stop}:{self.step} is outside axis {self.axis} of {a}"
            )
        if isinstance(length, int):
            length = -(-length // self.step)
        return (a.with_shape((*a.shape[: self.axis], length, *a.shape[self.axis + 1 :])),)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Cut."""
        (a,) = operands
        part = slice(bind_size(self.start, {}), bind_size(self.stop, {}), self.step)
        return (a[(slice(None),) * self.axis + (part,)],)
