"""Collects the steps of a chain; copies are put off until a value is really needed in local memory.

An operand of the graph is, until then, a number, a view of a global tensor, or a list of parts.
"""

from collections.abc import Iterable
from dataclasses import dataclass, replace

from ascendfx.codegen.ascendc.hardware_units import BLOCK_FLOATS
from ascendfx.codegen.ascendc.kernels.vector_chain.layout import (
    Form,
    GlobalView,
    Layout,
    line_layout,
)
from ascendfx.codegen.ascendc.kernels.vector_chain.program import (
    Apply,
    ApplyNumber,
    Columns,
    Combine,
    Fill,
    Interleave,
    Join,
    Load,
    Narrow,
    Pack,
    Reduce,
    Relabel,
    Repeat,
    Spread,
    Step,
    Store,
    Widen,
)
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True, slots=True)
class Number:
    """A scalar constant."""

    value: float


@dataclass(frozen=True, slots=True)
class View:
    """Part of an argument that was not copied in yet."""

    argument: str
    view: GlobalView
    per_row: bool
    dtype: DType = DType.F32
    numbers: int | None = None
    """Value that holds, for each token row, the row of the argument that stands for it."""


@dataclass(frozen=True, slots=True)
class Local:
    """A value in local memory."""

    step: int


@dataclass(frozen=True, slots=True)
class Parts:
    """Operands one behind the other on the last axis."""

    parts: tuple["Operand", ...]


@dataclass(frozen=True, slots=True)
class Repeated:
    """An operand whose single line stands for ``groups`` equal ones."""

    operand: "Operand"
    groups: int


@dataclass(frozen=True, slots=True)
class Digits:
    """Whole numbers as two lines of four-bit digits; they are written, and nothing else."""

    high: Local
    low: Local


_FEW_GROUPS = 4
"""Up to here a repeated line is written once per group instead of being repeated locally."""

Operand = Number | View | Local | Parts | Repeated | Digits


class ChainBuilder:
    """Appends steps; the same step is never written twice. ``origin`` names the steps to come.

    Every method raises `OpTypeError` where a layout has no instruction sequence; the caller knows
    the place.
    """

    def __init__(self) -> None:
        self.steps: list[Step] = []
        self.layouts: list[Layout] = []
        self.origins: list[str] = []
        self.origin = ""
        self._known: dict[Step, int] = {}

    def _add(self, step: Step, layout: Layout) -> Local:
        if step not in self._known:
            self._known[step] = len(self.steps)
            self.steps.append(step)
            self.layouts.append(layout)
            self.origins.append(self.origin)
        return Local(self._known[step])

    def layout(self, operand: Operand) -> Layout:
        """Return the layout an operand has or would have in local memory."""
        match operand:
            case Local():
                return self.layouts[operand.step]
            case View():
                return line_layout(
                    operand.view.groups, operand.view.columns, per_row=operand.per_row
                )
            case Parts():
                first = self.layout(operand.parts[0])
                columns = sum(self.layout(part).columns for part in operand.parts)
                return line_layout(first.groups, columns, per_row=first.per_row)
            case Repeated():
                inner = self.layout(operand.operand)
                return line_layout(operand.groups, inner.columns, per_row=inner.per_row)
            case Digits():
                inner = self.layout(operand.high)
                return line_layout(2, inner.columns // 2, per_row=inner.per_row)
            case Number():
                return Layout(Form.BLOCK, per_row=False, groups=1, columns=1)

    def local(self, operand: Operand) -> Local:
        """Bring an operand into local memory."""
        match operand:
            case Local():
                return operand
            case Number():
                return self._add(Fill(operand.value), self.layout(operand))
            case View():
                return self._load(operand)
            case Parts():
                return self._join(operand)
            case Digits():
                raise OpTypeError("digits of codes are written, and not computed with")
            case Repeated():
                source = self.local(operand.operand)
                if self.layouts[source.step].form is not Form.LINE:
                    raise OpTypeError("a number per row is not repeated over groups")
                return self._add(Repeat(source.step), self.layout(operand))

    def _load(self, view: View) -> Local:
        layout = self.layout(view)
        if layout.form is Form.SCALAR and not view.view.is_dense:
            raise OpTypeError("single columns of a longer row are not copied in one by one")
        loaded = self._add(Load(view.argument, view.view, view.numbers), layout)
        if view.dtype is not DType.I8:
            return loaded
        return self._add(Widen(loaded.step, DType.F16), layout)

    def rows_of(self, table: Operand, numbers: Operand) -> Operand:
        """Return, for each token row, a row of a table; nothing is copied yet."""
        if not isinstance(table, View) or table.per_row or table.view.columns == 1:
            raise OpTypeError("rows are taken of parameters with several columns")
        view = replace(table.view, row_stride=table.view.columns, groups=1)
        return replace(table, view=view, per_row=True, numbers=self.local(numbers).step)

    def _join(self, parts: Parts) -> Local:
        offset = 0
        for part in parts.parts:
            if offset % BLOCK_FLOATS or self.layout(part).form is not Form.LINE:
                raise OpTypeError(
                    f"a part of a concatenation starts at column {offset}, "
                    f"not at a multiple of {BLOCK_FLOATS}"
                )
            offset += self.layout(part).columns
        layout = self.layout(parts)
        sources = tuple(self.local(part).step for part in parts.parts)
        return self._add(Join(sources), layout)

    def apply(self, instruction: str, operand: Operand) -> Local:
        """Append a function of one operand."""
        source = self.local(operand)
        return self._add(Apply(instruction, source.step), self.layouts[source.step])

    def apply_number(self, instruction: str, operand: Operand, number: float) -> Local:
        """Append a function of one operand and a number."""
        source = self.local(operand)
        return self._add(ApplyNumber(instruction, source.step, number), self.layouts[source.step])

    def rounded(self, operand: Operand) -> Local:
        """Append the values of an operand rounded to bf16."""
        source = self.local(operand)
        layout = self.layouts[source.step]
        return self._add(Widen(self._add(Narrow(source.step), layout).step), layout)

    def combine(self, instruction: str, left: Operand, right: Operand) -> Local:
        """Append a function of two operands, with NumPy broadcasting."""
        a, b = self.layout(left), self.layout(right)
        groups, columns = max(a.groups, b.groups), max(a.columns, b.columns)
        for each in (a, b):
            if each.groups not in (1, groups) or each.columns not in (1, columns):
                raise OpTypeError(f"lines {a.groups}x{a.columns}, {b.groups}x{b.columns}")
        layout = line_layout(groups, columns, per_row=a.per_row or b.per_row)
        steps = (self._fit(left, layout), self._fit(right, layout))
        return self._add(Combine(instruction, steps[0].step, steps[1].step), layout)

    def _fit(self, operand: Operand, layout: Layout) -> Local:
        """Bring an operand into a form that can repeat over the lines of ``layout``."""
        own = self.layout(operand)
        if isinstance(operand, Repeated) and own.columns == layout.columns:
            operand = operand.operand  # the instruction repeats the line itself
        source = self.local(operand)
        own = self.layouts[source.step]
        if own.form is Form.SCALAR and layout.form is Form.LINE:
            return self.spread(source)
        if layout.form is Form.SCALAR and own != layout and own.form is not Form.BLOCK:
            raise OpTypeError("numbers per row and per line are not combined")
        return source

    def spread(self, source: Local) -> Local:
        """Append packed scalars as blocks."""
        own = self.layouts[source.step]
        blocks = Layout(Form.BLOCK, own.per_row, own.groups, 1)
        return self._add(Spread(source.step), blocks)

    def reduce(self, instruction: str, operand: Operand) -> Local:
        """Append a reduction of every line to a packed scalar."""
        source = self.local(operand)
        own = self.layouts[source.step]
        if own.form is not Form.LINE:
            return source
        scalar = Layout(Form.SCALAR, own.per_row, own.groups, 1)
        if instruction == "ReduceSum":
            return self._add(Reduce(instruction, source.step), scalar)
        blocks = Layout(Form.BLOCK, own.per_row, own.groups, 1)
        return self._add(Pack(self._add(Reduce(instruction, source.step), blocks).step), scalar)

    def concat(self, operands: tuple[Operand, ...]) -> Operand:
        """Return operands one behind the other on the last axis; nothing is copied yet."""
        groups = max(self.layout(each).groups for each in operands)
        for each in operands:
            if isinstance(each, Number) or self.layout(each).groups not in (1, groups):
                raise OpTypeError("a part of a concatenation has other lines")
        flat: list[Operand] = []
        for each in operands:
            flat += each.parts if isinstance(each, Parts) else (each,)
        return Parts(tuple(flat))

    def columns(self, operand: Operand, start: int, stop: int, step: int) -> Operand:
        """Return some columns; of a global tensor they are simply copied in."""
        own = self.layout(operand)
        count = -(-(stop - start) // step)
        if count == own.columns:
            return operand
        if isinstance(operand, View) and step == 1:
            return replace(operand, view=operand.view.part(start, count))
        if isinstance(operand, Repeated):
            return Repeated(self.columns(operand.operand, start, stop, step), operand.groups)
        if isinstance(operand, Parts) and step == 1:
            whole = self._whole_parts(operand, start, stop)
            if whole is not None:
                return whole
        source = self.local(operand)
        if count == 1:
            raise OpTypeError("a single column is not cut out of a computed line")
        layout = line_layout(own.groups, count, per_row=own.per_row)
        return self._add(Columns(source.step, start, step), layout)

    def _whole_parts(self, operand: Parts, start: int, stop: int) -> Operand | None:
        """Return the parts that make up ``start:stop``, cutting only the one that holds both."""
        offset = 0
        kept: list[Operand] = []
        for part in operand.parts:
            end = offset + self.layout(part).columns
            if offset <= start and stop <= end:
                return self.columns(part, start - offset, stop - offset, 1)
            if start <= offset and end <= stop:
                kept.append(part)
            elif end > start and offset < stop:
                return None
            offset = end
        return Parts(tuple(kept))

    def groups(self, operand: Operand, start: int, groups: int) -> Operand:
        """Return some lines of every row, which must still be in global memory."""
        if groups == self.layout(operand).groups:
            return operand
        if isinstance(operand, Repeated):
            return Repeated(operand.operand, groups) if groups > 1 else operand.operand
        if not isinstance(operand, View):
            raise OpTypeError("some lines are not cut out of a computed value")
        return replace(operand, view=operand.view.lines(start, groups))

    def regroup(self, operand: Operand, groups: int, columns: int) -> Operand:
        """Return the elements of each row as other lines."""
        own = self.layout(operand)
        if (own.groups, own.columns) == (groups, columns) or isinstance(operand, Number):
            return operand
        if isinstance(operand, View) and operand.numbers is None:
            view = operand.view.regroup(groups, columns)
            if view is not None:
                return replace(operand, view=view)
        source = self.local(operand)
        if own.columns % BLOCK_FLOATS or columns % BLOCK_FLOATS:
            raise OpTypeError(
                f"lines of {own.columns} cannot be read as lines of {columns}: not whole blocks"
            )
        return self._add(Relabel(source.step), line_layout(groups, columns, per_row=own.per_row))

    def interleave(self, left: Operand, right: Operand) -> Local:
        """Append the columns of both operands in turn."""
        steps = (self.local(left), self.local(right))
        own = self.layouts[steps[0].step]
        if own.form is not Form.LINE:
            raise OpTypeError("single columns are not interleaved")
        layout = line_layout(own.groups, 2 * own.columns, per_row=own.per_row)
        return self._add(Interleave(steps[0].step, steps[1].step), layout)

    def store(
        self, argument: str, operand: Operand, view: GlobalView, dtype: DType = DType.F32
    ) -> None:
        """Append the copies that write an operand to a view of an argument of format ``dtype``."""
        if isinstance(operand, Number):
            raise OpTypeError("a constant is no result")
        places = self._places(operand, view)
        if places is not None:
            for part, place in places:
                self.store(argument, part, place, dtype)
            return
        source = self.local(operand)
        layout = self.layouts[source.step]
        if layout.form is Form.SCALAR and not view.is_dense:
            raise OpTypeError("single columns of a longer row are not written one by one")
        if not layout.per_row:
            raise OpTypeError("a value that is the same for all rows is no result")
        if dtype in (DType.I8, DType.I4X2):  # by way of half, which holds every code
            source = self._add(Narrow(source.step, DType.F16), layout)
        self.steps.append(Store(argument, source.step, view))
        self.layouts.append(layout)
        self.origins.append("")

    def _places(
        self, operand: Operand, view: GlobalView
    ) -> list[tuple[Operand, GlobalView]] | None:
        """Return what is written where, or None if it is the operand as a whole."""
        match operand:
            case Parts():
                places: list[tuple[Operand, GlobalView]] = []
                start = 0
                for part in operand.parts:
                    columns = self.layout(part).columns
                    places.append((part, view.part(start, columns)))
                    start += columns
                return places
            case Repeated() if operand.groups <= _FEW_GROUPS:
                return [(operand.operand, view.lines(i, 1)) for i in range(operand.groups)]
            case Digits():
                return [(operand.high, view.lines(0, 1)), (operand.low, view.lines(1, 1))]
            case _:
                return None


def all_numbers(operands: Iterable[Operand]) -> bool:
    """Return whether every operand is a constant."""
    return all(isinstance(each, Number) for each in operands)
