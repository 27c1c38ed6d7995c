"""Index tables that gathers of a chain need, written once when the kernel starts."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.hardware_units import BLOCK_FLOATS, round_up
from ascendfx.codegen.ascendc.kernels.vector_chain.places import Places, Schedule, Tile, root_of
from ascendfx.codegen.ascendc.kernels.vector_chain.program import (
    ChainProgram,
    Columns,
    Interleave,
    Pack,
)


@dataclass(frozen=True, slots=True)
class Table:
    """Byte offsets ``scale * i + start`` or, interleaved, of two values in turn.

    Attributes:
        name: Variable in the emitted text.
        elements: int32 entries.
        start: Byte offset of the first entry.
        scale: Bytes from entry to entry (of one value, if interleaved).
        distance: Bytes from the first to the second value of an interleave; 0 if there is one.
        interleaved: Whether two values take turns.
    """

    name: str
    elements: int
    start: int
    scale: int
    distance: int = 0
    interleaved: bool = False


def table_name(i: int) -> str:
    """Return the table of step ``i``."""
    return f"offsets{i}"


PACK_TABLE = "blockOffsets"


def uses_pattern(program: ChainProgram, i: int) -> bool:
    """Return whether step ``i`` takes every second column of whole lines: GatherMask does that."""
    step = program.steps[i]
    if not isinstance(step, Columns):
        return False
    source, result = program.layouts[step.source], program.layouts[i]
    return step.step == 2 and step.start < 2 and source.pitch == 2 * result.pitch


def uses_block_copy(program: ChainProgram, i: int) -> bool:
    """Return whether step ``i`` takes neighbouring columns from a block's start on."""
    step = program.steps[i]
    return isinstance(step, Columns) and step.step == 1 and step.start % BLOCK_FLOATS == 0


def tables_of(
    program: ChainProgram, schedule: Schedule, places: Places, tile: Tile
) -> tuple[Table, ...]:
    """Return the tables of all steps that gather."""
    tables: list[Table] = []
    packed = 0
    for i in (*schedule.once, *schedule.tile):
        step = program.steps[i]
        pitch = round_up(program.layouts[i].columns, BLOCK_FLOATS)
        if isinstance(step, Columns):
            if not uses_pattern(program, i) and not uses_block_copy(program, i):
                tables.append(Table(table_name(i), pitch, 4 * step.start, 4 * step.step))
        elif isinstance(step, Interleave):
            left, right = (
                places.starts[root_of(program, each)] for each in (step.left, step.right)
            )
            tables.append(
                Table(table_name(i), pitch, 4 * left, 4, 4 * (right - left), interleaved=True)
            )
        elif isinstance(step, Pack):
            packed = max(packed, program.layouts[i].elements(tile.rows))
    if packed:
        tables.append(Table(PACK_TABLE, packed, 0, 32))
    return tuple(tables)
