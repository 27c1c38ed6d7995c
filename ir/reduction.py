"""What all reductions share."""

from dataclasses import dataclass

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Reduction(Op):
    """One result; some axes disappear or become one.

    Attributes:
        axes: Axes to reduce, counted from zero, ascending.
        keep: Whether reduced axes stay with size one.
    """

    axes: tuple[int, ...]
    keep: bool = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the reduced type.

        Raises:
            OpTypeError: An axis does not exist, or the axes are not ascending.
        """
        (a,) = operands
        if not self.axes or any(not 0 <= axis < a.rank for axis in self.axes):
            raise OpTypeError(f"{self.mnemonic}: axes {self.axes} are not axes of {a}")
        if list(self.axes) != sorted(set(self.axes)):
            raise OpTypeError(f"{self.mnemonic}: axes {self.axes} are not ascending")
        shape = (
            1 if axis in self.axes else size
            for axis, size in enumerate(a.shape)
            if self.keep or axis not in self.axes
        )
        return (a.with_shape(tuple(shape)),)
