"""A weight of the checkpoint."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Param(Op):
    """A tensor of the checkpoint, referred to by its key; never an array inside the graph.

    In a function the name is formal: each `Call` says which key stands for it.
    """

    mnemonic: ClassVar[str] = "param"

    name: str
    type: TensorType

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the declared type."""
        return (self.type,)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Never called: the interpreter binds weights by key."""
        raise AssertionError("weights are bound, not computed")
