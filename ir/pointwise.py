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
    """Apply ``numpy.<name>``; in an object array, to each element what suits it.

    NumPy's numbers keep their format, objects with a method of that name use it, and other
    expressions are SymPy's.
    """
    if a.dtype != object:
        return getattr(np, name)(a)
    return np.vectorize(lambda x: _applied(name, x), otypes=[object])(a) if a.size else a


def _applied(name: str, x: object) -> object:
    if isinstance(x, float | np.floating):
        return getattr(np, name)(x)
    method = getattr(x, name, None)
    return method() if method is not None else getattr(sympy, name)(x)


def holds_symbols(a: Array) -> bool:
    """Say whether the elements are expressions: then nothing overflows, and no shift is needed."""
    return a.dtype == object and not (a.size and isinstance(a.flat[0], np.floating))
