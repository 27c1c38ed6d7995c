"""A step as a flat list of kernel launches over buffers whose places were decided before."""

import enum
import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from functools import cached_property
from typing import Any

import sympy

from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument, KernelKind
from ascendfx.codegen.ascendc.work import KernelWork, Work
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.size import parse_size, print_size
from ascendfx.ir.tensor_type import DType

FORMAT = 6
"""Version of the JSON form; raised whenever a key is added, removed or renamed."""

ROW_START = "row_start"
"""Result of a step whose rows are packed: the first row of each request."""

_SIZES_OF_WORK = ("products", "vector_slots", "bytes", "rereads")


class Place(enum.Enum):
    """Which memory a buffer lives in."""

    ARENA = "arena"
    """Inside the one allocation of the step; its bytes are used again when it is dead."""
    WEIGHT = "weight"
    """Constant; filled once from a `WeightSpec` of the same name."""
    CACHE = "cache"
    """Keeps its contents between steps and is written in place."""
    CONTROL = "control"
    """Shared with the host: inputs of the step, sizes, tokens and logits."""


@dataclass(frozen=True, slots=True)
class Buffer:
    """A dense row-major tensor in device memory.

    Attributes:
        name: Unique in the plan; weights and caches share names between plans of one package.
        dtype: Element format; ids are i32 even where the graph says i64.
        shape: Capacity in elements per axis; a step uses the first rows of it. For a packed
            weight the packed shape.
        place: Which memory.
        offset_bytes: Where it starts in the arena; 0 for every other place.
    """

    name: str
    dtype: DType
    shape: tuple[int, ...]
    place: Place
    offset_bytes: int = 0

    @property
    def elements(self) -> int:
        """Number of elements."""
        count = 1
        for size in self.shape:
            count *= size
        return count

    @property
    def bytes(self) -> int:
        """Size without padding."""
        return self.elements * self.dtype.bytes


@dataclass(frozen=True, slots=True)
class Argument:
    """What a kernel argument points at.

    Attributes:
        buffer: Name of the buffer.
        byte_offset: From its start.
    """

    buffer: str
    byte_offset: int = 0


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch.

    Attributes:
        kernel: Name of the kernel.
        arguments: In the order of the kernel's signature.
        label: Module path and operations, for traces and reports.
    """

    kernel: str
    arguments: tuple[Argument, ...]
    label: str


@dataclass(frozen=True, slots=True)
class Capacities:
    """Largest sizes one plan serves.

    Attributes:
        rows: Token rows of a step.
        requests: Requests of a step.
        context: Tokens of a request, cached ones and those of the step.
        blocks: Blocks of every cache.
        table_blocks: Blocks of one request, columns of the block table.
        pairs_per_row: Experts per token, so that `sizes` can tell pairs; 0 without experts.
        steps: Steps whose emitted tokens are kept until the host reads them.
        drafts: Draft tokens of a request in a step.
        branches: Those at each depth, if they are a tree; empty: they are a chain.
    """

    rows: int
    requests: int
    context: int
    blocks: int
    table_blocks: int
    pairs_per_row: int = 0
    steps: int = 1
    drafts: int = 0
    branches: tuple[int, ...] = ()

    @property
    def tree(self) -> DraftTree:
        """Where the drafts stand; a chain is a tree, too."""
        return DraftTree(self.branches or (1,) * self.drafts)

    def sizes(self, rows: int, requests: int, context: int) -> tuple[int, ...]:
        """Return the leading elements of ``sizes`` for a step."""
        each = self.pairs_per_row
        return rows, requests, context, rows * each, requests * each


@dataclass(frozen=True)
class LaunchPlan:
    """Everything a launcher needs for one kind of step.

    Attributes:
        name: ``decode``, ``prefill`` and so on.
        buffers: Every buffer once; control buffers first, in the order of the graph's inputs.
        launches: In order; each depends on all earlier ones.
        kernels: Every kernel once, by first use.
        arena_bytes: Size of the arena.
        capacities: Largest sizes.
        results: Names of the buffers that a step returns, without what it changes in place:
            ``next_tokens``, ``logits`` and, of a prefill with drafts, ``draft_tokens.<i>``, of a
            decode step with packed rows `ROW_START`.
        remarks: Where launches stayed apart, and why; once per distinct layer.
        works: What each kernel does, for the cost model; in the order of ``kernels``.
    """

    name: str
    buffers: tuple[Buffer, ...]
    launches: tuple[Launch, ...]
    kernels: tuple[Kernel, ...]
    arena_bytes: int
    capacities: Capacities
    results: tuple[str, ...]
    remarks: tuple[str, ...] = ()
    works: tuple[KernelWork, ...] = ()

    @cached_property
    def kernel_by_name(self) -> Mapping[str, Kernel]:
        """Each kernel by its name."""
        return {kernel.name: kernel for kernel in self.kernels}

    @cached_property
    def buffer_by_name(self) -> Mapping[str, Buffer]:
        """Each buffer by its name."""
        return {buffer.name: buffer for buffer in self.buffers}

    def of_place(self, place: Place) -> tuple[Buffer, ...]:
        """Return the buffers of one memory, in order."""
        return tuple(buffer for buffer in self.buffers if buffer.place is place)


def print_plan(plan: LaunchPlan) -> str:
    """Return the JSON form without the kernel texts; `read_plan` reads it back."""
    data: dict[str, Any] = {"format": FORMAT, **asdict(plan)}
    for kernel in data["kernels"]:
        del kernel["source"]
    if not plan.capacities.branches:
        del data["capacities"]["branches"]
    return json.dumps(data, indent=1, default=_enum_value) + "\n"


def read_plan(text: str, sources: Mapping[str, str]) -> LaunchPlan:
    """Read the JSON form.

    Args:
        text: What `print_plan` returned.
        sources: Text of every kernel, by name.

    Raises:
        GraphError: Another version of the form, or a kernel text is missing.
    """
    data: dict[str, Any] = json.loads(text)
    if data.get("format") != FORMAT:
        raise GraphError(
            code="plan-format",
            reason=f"the plan has format {data.get('format')}, this version reads {FORMAT}",
            hint="compile the package again",
        )
    missing = [each["name"] for each in data["kernels"] if each["name"] not in sources]
    if missing:
        raise GraphError(
            code="missing-kernel",
            reason=f"no text of kernel `{missing[0]}`",
            hint="copy the package again, or compile the model again",
        )
    return LaunchPlan(
        name=data["name"],
        buffers=tuple(map(_buffer, data["buffers"])),
        launches=tuple(map(_launch, data["launches"])),
        kernels=tuple(_kernel(each, sources[each["name"]]) for each in data["kernels"]),
        arena_bytes=data["arena_bytes"],
        capacities=_capacities(data["capacities"]),
        results=tuple(data["results"]),
        remarks=tuple(data["remarks"]),
        works=tuple(map(_work, data["works"])),
    )


def _enum_value(value: object) -> object:
    if isinstance(value, enum.Enum):
        return value.value
    if isinstance(value, sympy.Expr):
        return print_size(value)
    raise AssertionError(f"a plan holds no {type(value)}")


def _buffer(data: dict[str, Any]) -> Buffer:
    return Buffer(
        name=data["name"],
        dtype=DType(data["dtype"]),
        shape=tuple(data["shape"]),
        place=Place(data["place"]),
        offset_bytes=data["offset_bytes"],
    )


def _capacities(data: dict[str, Any]) -> Capacities:
    sizes = Capacities(**data)
    return replace(sizes, branches=tuple(sizes.branches))


def _launch(data: dict[str, Any]) -> Launch:
    arguments = tuple(Argument(**each) for each in data["arguments"])
    return Launch(data["kernel"], arguments, data["label"])


def _kernel(data: dict[str, Any], source: str) -> Kernel:
    arguments = tuple(
        KernelArgument(
            each["name"], DType(each["dtype"]), Direction(each["direction"]), each["elements"]
        )
        for each in data["arguments"]
    )
    kind = KernelKind(data["kind"])
    return Kernel(data["name"], data["family"], kind, data["blocks"], arguments, source)


def _work(data: dict[str, Any]) -> KernelWork:
    said = data["work"]
    products, slots, moved, rereads = (parse_size(str(said[name])) for name in _SIZES_OF_WORK)
    numbers = said["experts"], said["chosen"], parse_size(str(said["choosing"]))
    work = Work(products, DType(said["format"]), slots, moved, rereads, *numbers)
    return KernelWork(data["kernel"], data["graph"], work, data["location"])
