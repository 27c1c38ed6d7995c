"""What a graph body reads besides its operands: sizes and weights, supplied by who uses it."""

from dataclasses import dataclass

from ascendfx.ir.ops.call import Call
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class NamedSize:
    """A size that no operand's shape reveals, as ``i64[1]``."""

    name: str

    @property
    def label(self) -> str:
        """Name of the model input that supplies it."""
        return f"size.{self.name}"

    @property
    def type(self) -> TensorType:
        """One number."""
        return TensorType(DType.I64, (1,))


@dataclass(frozen=True, slots=True)
class Formal:
    """A parameter of the function itself; each call says what stands for it."""

    name: str
    type: TensorType

    @property
    def label(self) -> str:
        """Name inside the function."""
        return self.name


@dataclass(frozen=True, slots=True)
class Key:
    """A tensor of the checkpoint."""

    key: str
    type: TensorType

    @property
    def label(self) -> str:
        """The key itself."""
        return self.key


@dataclass(frozen=True, slots=True)
class Made:
    """A tensor that a recipe makes of checkpoint tensors.

    Attributes:
        graph: The function whose parameter it is.
        name: Formal name of the parameter.
        call: The call that supplies the keys; None in the entry graph.
        type: The type of the parameter.
    """

    graph: str
    name: str
    call: Call | None
    type: TensorType

    @property
    def label(self) -> str:
        """A readable name; unique up to the numbering that `Names` adds."""
        return self.name if self.call is None else f"{self.graph}.{self.name}"


Need = NamedSize | Formal | Key | Made
