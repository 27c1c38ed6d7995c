"""A kernel launch before buffers have places: what one graph becomes, once per distinct layer."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.lowering.view import View
from ascendfx.codegen.ascendc.work import NO_WORK, Work
from ascendfx.ir.graph import Value
from ascendfx.ir.ops import Call
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True, slots=True)
class Scratch:
    """A buffer that is no value of the graph.

    Attributes:
        position: The node it is for.
        name: What it holds.
        dtype: Element format.
        elements: Size.
    """

    position: int
    name: str
    dtype: DType
    elements: int


@dataclass(frozen=True, slots=True)
class Operand:
    """What a kernel argument stands for.

    Attributes:
        root: The value that owns the buffer, or a scratch buffer.
        byte_offset: From its start.
        layout: ``nd``, or ``nz`` for a packed weight.
    """

    root: Value | Scratch
    byte_offset: int = 0
    layout: str = "nd"


@dataclass(frozen=True, slots=True)
class KernelStep:
    """One launch of a kernel that a family will emit.

    Attributes:
        plan: Of the family; equal plans share one kernel.
        emit: The family's emitter.
        name: Readable name of the kernel, not yet unique.
        operands: In the order of the kernel's arguments, without ``sizes`` and ``workspace``.
        position: The node whose result it makes.
        covers: Positions of all nodes it computes.
        work: What it does, for the cost model.
    """

    plan: Any  # each family has its own plan type; only its emitter looks inside
    emit: Callable[[Any, str], Kernel]
    name: str
    operands: tuple[Operand, ...]
    position: int
    covers: tuple[int, ...]
    work: Work = NO_WORK


@dataclass(frozen=True, slots=True)
class CallStep:
    """Steps of another graph.

    Attributes:
        call: Which graph, with which weights.
        operands: One per input of the graph.
        position: The node.
    """

    call: Call
    operands: tuple[Operand, ...]
    position: int


Step = KernelStep | CallStep


@dataclass(frozen=True)
class LoweredGraph:
    """A graph as launches.

    Attributes:
        steps: In order.
        outputs: Views of the results; each is dense.
        remarks: Where fusion stopped, and why.
    """

    steps: tuple[Step, ...]
    outputs: tuple[View, ...]
    remarks: tuple[str, ...]
