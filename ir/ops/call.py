"""Use of a function of the program."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.op import Array, Op
from ascendfx.ir.tensor_type import TensorType


@dataclass(frozen=True, slots=True)
class Call(Op):
    """Runs a graph of the same program, with its own choice of checkpoint keys.

    Attributes:
        callee: Name of the graph.
        types: Result types for the operand types of this call.
        keys: Formal parameter name and checkpoint key, in the order of the callee's parameters.
    """

    mnemonic: ClassVar[str] = "call"

    callee: str
    types: tuple[TensorType, ...]
    keys: tuple[tuple[str, str], ...]

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the declared types; `verify_program` compares them with the callee."""
        return self.types

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Never called: the interpreter runs the callee."""
        raise AssertionError("calls are run by the interpreter")

    def key_of(self, parameter: str) -> str:
        """Return the checkpoint key that stands for ``parameter``."""
        return dict(self.keys)[parameter]
