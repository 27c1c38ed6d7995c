"""What all elementwise operations share: one result, broadcasting, no format conversion."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import sympy

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.size import Dim
from ascendfx.ir.tensor_type import DType, TensorType, broadcast


@dataclass(frozen=True, slots=True)
class Unary(Op):
    """``y = f(a)``, elementwise; the result has the type of the operand."""

    float_only: ClassVar[bool] = True

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the operand's type.

        Raises:
            OpTypeError: The function is defined for floats only and the operand is none.
        """
        (a,) = operands
        if self.float_only and not a.dtype.is_float:
            raise OpTypeError(
                f"{self.mnemonic}: the operand must be a float, got {a}",
                hint="insert a cast; the graph never converts formats silently",
            )
        return (a,)


@dataclass(frozen=True, slots=True)
class Binary(Op):
    """``y = f(a, b)`` with NumPy broadcasting; both operands have one element format."""

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the broadcast of both shapes.

        Raises:
            OpTypeError: The formats differ or the shapes do not broadcast.
        """
        a, b = operands
        return (TensorType(a.dtype, broadcast_operands(self.mnemonic, a, b)),)


@dataclass(frozen=True, slots=True)
class Comparison(Op):
    """``y = a ? b`` with NumPy broadcasting; the result is ``bool``."""

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the broadcast of both shapes as ``bool``.

        Raises:
            OpTypeError: The formats differ or the shapes do not broadcast.
        """
        a, b = operands
        return (TensorType(DType.BOOL, broadcast_operands(self.mnemonic, a, b)),)


def broadcast_operands(mnemonic: str, a: TensorType, b: TensorType) -> tuple[Dim, ...]:
    """Return the common shape.

    Raises:
        OpTypeError: The formats differ or the shapes do not broadcast.
    """
    if a.dtype is not b.dtype:
        raise OpTypeError(
            f"{mnemonic}: formats differ: {a.dtype.value} and {b.dtype.value}",
            hint="insert a cast; the graph never converts formats silently",
        )
    shape = broadcast(a.shape, b.shape)
    if shape is None:
        raise OpTypeError(f"{mnemonic}: shapes do not broadcast: {a} and {b}")
    return shape


def apply_function(name: str, a: Array) -> Array:
    """Apply ``numpy.<name>``, or ``sympy.<name>`` to each element of an object array."""
    if a.dtype == object:
        function = getattr(sympy, name)
        return np.vectorize(function, otypes=[object])(a) if a.size else a
    return getattr(np, name)(a)
