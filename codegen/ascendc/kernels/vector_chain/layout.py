"""How the values of a chain lie in local and in global memory."""

import enum
from dataclasses import dataclass

from ascendfx.codegen.ascendc.hardware_units import BLOCK_BYTES, BLOCK_FLOATS, round_up


class Form(enum.Enum):
    """What a line holds."""

    LINE = "columns"
    SCALAR = "one number per line, packed"
    BLOCK = "one number per line, eight times"


@dataclass(frozen=True, slots=True)
class Layout:
    """Layout of an f32 value in local memory.

    Attributes:
        form: What a line holds.
        per_row: Whether there is a value per token row; else it is the same for all rows.
        groups: Lines per row, for example attention heads.
        columns: Elements of a line; 1 unless the form is `Form.LINE`.
    """

    form: Form
    per_row: bool
    groups: int
    columns: int

    @property
    def pitch(self) -> int:
        """Elements from line to line."""
        if self.form is Form.SCALAR:
            return 1
        return round_up(self.columns, BLOCK_FLOATS)

    @property
    def half_pitch(self) -> int:
        """Elements from line to line of 16-bit numbers that an int8 line is converted from or to.

        Lines follow each other if they are whole int8 blocks; else each starts where its f32 does,
        which is a block's start in any case.
        """
        return self.pitch if self.codes_are_whole else 2 * self.pitch

    @property
    def codes_are_whole(self) -> bool:
        """Whether int8 lines of a queue follow each other as the f32 lines do."""
        return self.form is not Form.LINE or self.pitch % BLOCK_BYTES == 0

    def elements(self, rows: int) -> int:
        """Return the f32 elements of a tile of ``rows`` token rows."""
        lines = (rows if self.per_row else 1) * self.groups
        if self.form is Form.LINE:
            return lines * self.pitch
        return round_up(lines, BLOCK_FLOATS) * (BLOCK_FLOATS if self.form is Form.BLOCK else 1)


def line_layout(groups: int, columns: int, *, per_row: bool) -> Layout:
    """Return the layout of a value with ``columns`` per line: a scalar if there is only one."""
    return Layout(Form.LINE if columns > 1 else Form.SCALAR, per_row, groups, columns)


@dataclass(frozen=True, slots=True)
class GlobalView:
    """Where the lines of a value stand in a global tensor; everything in elements.

    Attributes:
        offset: From the start of the tensor to the first line.
        row_stride: From token row to token row; 0 for a parameter.
        groups: Lines per row.
        group_stride: From line to line within a row.
        columns: Elements of a line.
    """

    offset: int
    row_stride: int
    groups: int
    group_stride: int
    columns: int

    def part(self, start: int, columns: int) -> "GlobalView":
        """Return the view of some columns."""
        return GlobalView(
            self.offset + start, self.row_stride, self.groups, self.group_stride, columns
        )

    def lines(self, start: int, groups: int) -> "GlobalView":
        """Return the view of some groups."""
        return GlobalView(
            self.offset + start * self.group_stride,
            self.row_stride,
            groups,
            self.group_stride,
            self.columns,
        )

    def regroup(self, groups: int, columns: int) -> "GlobalView | None":
        """Return the same elements as other groups, or None if they do not stand one by one."""
        whole = self.groups == 1 or self.group_stride == self.columns
        if not whole or groups * columns != self.groups * self.columns:
            return None
        return GlobalView(self.offset, self.row_stride, groups, columns, columns)

    @property
    def is_even(self) -> bool:
        """Whether all lines of all rows stand at one distance."""
        return self.groups == 1 or self.row_stride in (0, self.groups * self.group_stride)

    @property
    def line_stride(self) -> int:
        """Distance of the lines of an even view."""
        return self.row_stride if self.groups == 1 else self.group_stride

    @property
    def is_dense(self) -> bool:
        """Whether the lines follow each other without gaps."""
        return self.is_even and self.line_stride in (0, self.columns)
