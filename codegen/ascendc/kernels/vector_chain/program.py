"""A chain as a list of primitive steps over local values, each step making at most one value."""

from collections.abc import Mapping
from dataclasses import dataclass, field

from ascendfx.codegen.ascendc.kernels.vector_chain.layout import Form, GlobalView, Layout
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True, slots=True)
class Argument:
    """A global tensor of the kernel.

    Attributes:
        name: In the emitted text: ``x0`` for inputs, ``w0`` for parameters, ``y0`` for outputs.
        dtype: Element format.
        meaning: What it is in the graph, for the comment.
        elements: Size at capacity.
    """

    name: str
    dtype: DType
    meaning: str
    elements: int


@dataclass(frozen=True, slots=True)
class Load:
    """Copy a view of an argument in and convert it to f32, int8 to half in the front half only.

    With ``numbers``, a value of a number per token row, each row is that row of a table.
    """

    argument: str
    view: GlobalView
    numbers: int | None = None


@dataclass(frozen=True, slots=True)
class Fill:
    """One block of a number, kept for the whole kernel."""

    value: float


@dataclass(frozen=True, slots=True)
class Apply:
    """``instruction(dst, source)``."""

    instruction: str
    source: int


@dataclass(frozen=True, slots=True)
class ApplyNumber:
    """``instruction(dst, source, number)``."""

    instruction: str
    source: int
    number: float


@dataclass(frozen=True, slots=True)
class Combine:
    """``instruction(dst, left, right)``; the smaller operand repeats."""

    instruction: str
    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Narrow:
    """The values rounded to a 16-bit format; see `Layout.half_pitch` for where lines start."""

    source: int
    dtype: DType = DType.BF16


@dataclass(frozen=True, slots=True)
class Widen:
    """16-bit values as f32."""

    source: int
    dtype: DType = DType.BF16


@dataclass(frozen=True, slots=True)
class Reduce:
    """``instruction`` over each line: ``ReduceSum`` packs scalars, ``ReduceMax`` fills blocks."""

    instruction: str
    source: int


@dataclass(frozen=True, slots=True)
class Pack:
    """The first element of each block as packed scalars."""

    source: int


@dataclass(frozen=True, slots=True)
class Spread:
    """Packed scalars as blocks."""

    source: int


@dataclass(frozen=True, slots=True)
class Columns:
    """Every ``step``-th column from ``start`` on."""

    source: int
    start: int
    step: int


@dataclass(frozen=True, slots=True)
class Join:
    """Lines one behind the other."""

    sources: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Interleave:
    """Columns of both operands in turn."""

    left: int
    right: int


@dataclass(frozen=True, slots=True)
class Repeat:
    """The line of a row once per group."""

    source: int


@dataclass(frozen=True, slots=True)
class Relabel:
    """The same storage, other groups."""

    source: int


@dataclass(frozen=True, slots=True)
class Store:
    """Round to the argument's format and copy out; codes from halves."""

    argument: str
    source: int
    view: GlobalView


Step = (
    Load
    | Fill
    | Apply
    | ApplyNumber
    | Combine
    | Narrow
    | Widen
    | Reduce
    | Pack
    | Spread
    | Columns
    | Join
    | Interleave
    | Repeat
    | Relabel
    | Store
)


_OF_ONE_COLUMN = (Load, Fill, Apply, ApplyNumber, Combine, Narrow, Widen, Spread, Store)


@dataclass(frozen=True)
class ChainProgram:
    """The steps of a chain.

    Attributes:
        inputs: Arguments read, in the order of the kernel's signature.
        outputs: Arguments written.
        steps: In order; step ``i`` makes value ``i``.
        layouts: Layout of each value; of the stored value for a `Store`.
        origins: What each step belongs to in the graph, for comments; empty for a `Store`.
    """

    inputs: tuple[Argument, ...]
    outputs: tuple[Argument, ...]
    steps: tuple[Step, ...]
    layouts: tuple[Layout, ...]
    origins: tuple[str, ...]
    arguments: Mapping[str, Argument] = field(init=False, compare=False)

    def __post_init__(self) -> None:
        table = {each.name: each for each in (*self.inputs, *self.outputs)}
        object.__setattr__(self, "arguments", table)

    def is_fixed(self, value: int) -> bool:
        """Return whether a value is the same for all rows: made once, kept for the kernel."""
        return not self.layouts[value].per_row

    @property
    def works_on_columns_alone(self) -> bool:
        """Whether every column can be computed without its neighbours, one line per row."""
        columns = {each.columns for each in self.layouts if each.form is Form.LINE}
        pairs = any(each.dtype is DType.I4X2 for each in self.outputs)
        plain = not pairs and all(isinstance(step, _OF_ONE_COLUMN) for step in self.steps)
        return plain and len(columns) == 1 and all(each.groups == 1 for each in self.layouts)


def sources_of(step: Step) -> tuple[int, ...]:
    """Return the values a step reads."""
    match step:
        case Load():
            return () if step.numbers is None else (step.numbers,)
        case Fill():
            return ()
        case Combine() | Interleave():
            return (step.left, step.right)
        case Join():
            return step.sources
        case _:
            return (step.source,)
