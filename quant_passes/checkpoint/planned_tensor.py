"""What is to be written: weights by name, what they become, and how each is made in its turn."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight, StaticInputs
from ascendfx.quant_passes.formats.format import Format
from ascendfx.quant_passes.scaling.granularity import Granularity
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor


@dataclass(frozen=True, slots=True)
class Scheme:
    """What a weight becomes, as far as the sizes of its tensors depend on it.

    Attributes:
        format: Of its codes.
        granularity: Which weights share a scale.
        activation: What its inputs become: int8 per token, int8 by calibration, or nothing.
        symmetric: Whether there are no zero points.
        scales: Element format of the scales.
    """

    format: Format
    granularity: Granularity
    activation: Literal["dynamic", "static"] | None = None
    symmetric: bool = True
    scales: DType = DType.F32

    def __str__(self) -> str:
        inputs = f", inputs int8 {self.activation}" if self.activation else ""
        return f"{self.format.name} per {self.granularity.name}{inputs}"


@dataclass(frozen=True, slots=True, eq=False)
class PlannedTensor:
    """A tensor of the result.

    Attributes:
        name: As the model's checkpoint has it, with `.weight`.
        shape: Of the numbers: ``[out, in]`` for codes.
        dtype: Element format if it stays numbers, and of the model else.
        scheme: What it becomes; None: it stays.
        make: Reads and quantizes it. May be called again after a crash, and has to return the same.
    """

    name: str
    shape: tuple[int, ...]
    dtype: DType
    scheme: Scheme | None
    make: Callable[[], SavedWeight]


Plan: TypeAlias = Sequence[PlannedTensor]
"""All tensors of the result, in the order in which they are made."""


@dataclass(frozen=True, slots=True)
class Part:
    """A tensor of a file.

    Attributes:
        name: Its name there.
        format: Element format.
        shape: Its shape.
    """

    name: str
    format: np.dtype[Any]
    shape: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Size of its data."""
        return int(np.prod(self.shape, dtype=np.int64)) * self.format.itemsize


class CheckpointForm(Protocol):
    """A form of checkpoint, as far as writing goes. Implementations are frozen dataclasses."""

    @property
    def name(self) -> str:
        """How users call it."""
        ...

    @property
    def stem(self) -> str:
        """How the names of its weight files begin."""
        ...

    def parts(self, tensor: PlannedTensor) -> tuple[Part, ...]:
        """Return the tensors of files that hold a weight.

        Raises:
            GraphError: `not-storable`: the form has no place for such codes.
        """
        ...

    def encode(self, tensor: PlannedTensor, saved: SavedWeight) -> dict[str, NDArray[Any]]:
        """Return what `parts` announced, by name.

        Raises:
            GraphError: `not-as-planned`: the weight is another one than was planned.
        """
        ...

    def check(self, plan: Plan) -> None:
        """Check what loaders of the form ask of weights together.

        Raises:
            GraphError: `not-storable`.
        """
        ...

    def files(self, plan: Plan, config: dict[str, Any]) -> dict[str, dict[str, Any]]:
        """Return the JSON files of the form: ``config.json``, and what it has beside that."""
        ...


def not_storable(form: str, tensor: PlannedTensor, why: str, hint: str) -> GraphError:
    """Return the error for a weight that a form has no place for."""
    what = str(tensor.scheme or tensor.dtype.value)
    reason = f"{form}: `{tensor.name}` {list(tensor.shape)} cannot be stored as {what}: {why}"
    return GraphError("not-storable", reason, hint=hint)


def as_planned(tensor: PlannedTensor, saved: SavedWeight) -> QuantizedTensor:
    """Return the codes of a planned weight if they are what was planned.

    Raises:
        GraphError: `not-as-planned`.
    """
    scheme, weight = tensor.scheme, saved.weight
    if scheme is None:
        raise AssertionError(f"{tensor.name} stays numbers")
    if not isinstance(weight, QuantizedTensor):
        raise _other(tensor, f"a {type(weight).__name__}")
    affine = weight.affine
    static = isinstance(saved.activation, StaticInputs)
    found = {
        "shape": (weight.shape, tensor.shape),
        "format": (_kind(weight.format), _kind(scheme.format)),
        "granularity": (affine.granularity, scheme.granularity),
        "inputs": ("static" if static else saved.activation, scheme.activation),
        "scales": (affine.stored, scheme.scales),
        "zero points": (affine.zero is None, scheme.symmetric),
    }
    for what, (given, wanted) in found.items():
        if given != wanted:
            raise _other(tensor, f"one with {what} {given}, not {wanted}")
    return weight


def _kind(form: Format) -> tuple[type, float]:
    """Return what decides the size of codes: whether they are narrow or how they round does not."""
    return type(form), form.bits


def numbers_as_planned(tensor: PlannedTensor, saved: SavedWeight) -> NDArray[Any]:
    """Return the numbers of a planned tensor if they are what was planned.

    Raises:
        GraphError: `not-as-planned`.
    """
    weight = saved.weight
    if not isinstance(weight, np.ndarray):
        weight = weight.decode(tensor.dtype)
    if weight.shape != tensor.shape or weight.dtype != tensor.dtype.numpy:
        raise _other(tensor, f"{weight.dtype}{list(weight.shape)}")
    return weight


def _other(tensor: PlannedTensor, given: str) -> GraphError:
    what = f"{tensor.scheme or tensor.dtype.value} {list(tensor.shape)}"
    reason = f"`{tensor.name}` was planned as {what}, and {given} was made"
    return GraphError("not-as-planned", reason, hint="plan what the algorithm makes of the weight")
