"""What every operation must be able to say about itself."""

import dataclasses
from abc import ABC, abstractmethod
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, ClassVar, Self

import numpy as np
import sympy
from numpy.typing import NDArray

from ascendfx.ir.size import Dim, substitute_size
from ascendfx.ir.tensor_type import TensorType

Array = NDArray[Any]
"""Float64, int64 or bool values, or an object array of SymPy expressions in a proof."""


@dataclass(frozen=True, slots=True)
class Op(ABC):
    """A computation without a place in a graph: a value object with typed attributes.

    Subclasses are frozen dataclasses. They answer two questions, and nothing else: which types
    come out (`infer`) and which numbers come out (`reference`). Everything that depends on a
    target, a layout or a schedule lives outside.
    """

    mnemonic: ClassVar[str]
    in_place: ClassVar[Mapping[int, int]] = {}
    """Results that are the changed contents of an operand: a kernel overwrites its buffer."""

    @abstractmethod
    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the result types.

        Raises:
            OpTypeError: The operands break this operation's rule.
        """

    @abstractmethod
    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Compute the exact results, element formats ignored.

        Called on an operation whose sizes are bound to numbers. Uses only NumPy operations that
        also accept object arrays where the operation can appear in a symbolic proof.
        """

    def substitute(self, replacements: Mapping[str, Dim]) -> Self:
        """Return the operation with named sizes replaced in its attributes."""
        changed = {
            field.name: after
            for field in dataclasses.fields(self)
            if (after := _substitute(before := getattr(self, field.name), replacements))
            is not before
        }
        return dataclasses.replace(self, **changed) if changed else self


def _substitute(value: Any, replacements: Mapping[str, Dim]) -> Any:
    match value:
        case TensorType() if value.names & replacements.keys():
            return value.substitute(replacements)
        case sympy.Expr():
            return substitute_size(value, replacements)
        case tuple() if any(isinstance(each, sympy.Expr | tuple | TensorType) for each in value):  # pyright: ignore[reportUnknownVariableType]
            return tuple(_substitute(each, replacements) for each in value)  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _:
            return value


def as_float64(array: Array) -> NDArray[np.float64]:
    """Widen to the format in which references are compared."""
    return np.asarray(array, dtype=np.float64)
