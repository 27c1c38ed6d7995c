"""An input of the graph."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Input(Op):
    """A value supplied by the caller, known by its name."""

    mnemonic: ClassVar[str] = "input"

    name: str
    type: TensorType

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the declared type."""
        return (self.type,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Never called: the interpreter binds inputs by name."""
        raise AssertionError("inputs are bound, not computed")
