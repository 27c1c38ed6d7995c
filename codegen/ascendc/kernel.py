"""An emitted kernel: its text and everything a launcher must know about it."""

import enum
from dataclasses import dataclass

from ascendfx.ir.tensor_type import DType


class KernelKind(enum.Enum):
    """Which cores a kernel runs on; the value is the CANN 8.x spelling of the kernel type.

    Source: asc-devkit, "Kernel-Tiling / setting the kernel type". CANN 9.x writes
    ``__vector__``, ``__cube__`` and ``__mix__(1, 2)`` instead.
    """

    VECTOR = "KERNEL_TYPE_AIV_ONLY"
    SYNCED_VECTOR = "KERNEL_TYPE_MIX_AIV_1_0"
    """Vector cores that wait for each other: cross-core flags need the scheduler of this type."""
    CUBE = "KERNEL_TYPE_AIC_ONLY"
    MIX = "KERNEL_TYPE_MIX_AIC_1_2"


class Direction(enum.Enum):
    """What a kernel may do with an argument."""

    IN = "in"
    OUT = "out"
    IN_OUT = "in out"
    WORKSPACE = "workspace"


@dataclass(frozen=True, slots=True)
class KernelArgument:
    """One GM argument.

    Attributes:
        name: As in the emitted signature.
        dtype: Element format.
        direction: Writing to an ``IN`` argument is a fault in the emulator.
        elements: Size the kernel was planned for, in elements.
    """

    name: str
    dtype: DType
    direction: Direction
    elements: int


@dataclass(frozen=True, slots=True)
class DeviceSize:
    """A size that the kernel reads from the ``sizes`` tensor when it starts.

    Attributes:
        slot: Index into ``sizes`` (int32), see `ascendfx.ir.step_state.Size`.
        capacity: Largest value the plan allows.
    """

    slot: int
    capacity: int


SIZES_ELEMENTS = 8
"""Elements of the ``sizes`` tensor: one 32-byte granule of int32."""


@dataclass(frozen=True, slots=True)
class Kernel:
    """The Ascend C source of one kernel and its launch contract.

    Attributes:
        name: The ``extern "C"`` symbol.
        family: Which emitter made it.
        kind: Cores it runs on.
        blocks: ``numBlocks`` of the launch: AIV count, AIC count, or groups for a mixed kernel.
        arguments: In the order of the signature.
        source: The text.
    """

    name: str
    family: str
    kind: KernelKind
    blocks: int
    arguments: tuple[KernelArgument, ...]
    source: str
