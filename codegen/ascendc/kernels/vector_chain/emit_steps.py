"""Text of the steps that compute or move inside local memory."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import BLOCK_FLOATS, MAX_REPEAT_STRIDE, REPEAT_FLOATS
from ascendfx.codegen.ascendc.kernels.vector_chain.cast_text import Lines, write_cast
from ascendfx.codegen.ascendc.kernels.vector_chain.layout import Form, Layout
from ascendfx.codegen.ascendc.kernels.vector_chain.program import (
    Apply,
    ApplyNumber,
    Columns,
    Combine,
    Fill,
    Interleave,
    Join,
    Narrow,
    Pack,
    Reduce,
    Repeat,
    Spread,
    Step,
    Widen,
)
from ascendfx.codegen.ascendc.kernels.vector_chain.tables import (
    PACK_TABLE,
    table_name,
    uses_block_copy,
    uses_pattern,
)
from ascendfx.codegen.ascendc.kernels.vector_chain.tile_text import TileText, index, signed, times
from ascendfx.codegen.ascendc.kernels.vector_kernel import CPP_TYPE, float_literal
from ascendfx.ir.tensor_type import DType

_LONGEST_STRIDE = MAX_REPEAT_STRIDE * BLOCK_FLOATS
"""Elements a repeat stride reaches."""


def write_step(out: CppWriter, text: TileText, i: int, step: Step) -> None:  # noqa: C901, PLR0912  # a match over a closed union
    """Write one computing step."""
    layout = text.layout(i)
    elements = signed(text.elements(layout))
    match step:
        case Fill():
            out.line(f"Duplicate(v{i}, {float_literal(step.value)}, 8);")
        case Apply(instruction="Nearest"):
            out.line(f"Cast(v{i}, v{step.source}, RoundMode::CAST_RINT, {text.elements(layout)});")
        case Apply():
            out.line(f"{step.instruction}(v{i}, v{step.source}, {elements});")
        case ApplyNumber():
            number = float_literal(step.number)
            out.line(f"{step.instruction}(v{i}, v{step.source}, {number}, {elements});")
        case Combine():
            _write_combine(out, text, i, step)
        case Narrow():
            tensor = f"v{i}.ReinterpretCast<{CPP_TYPE[step.dtype]}>()"
            sides = Lines(tensor, _half_pitch(layout, step)), Lines(f"v{step.source}", layout.pitch)
            write_cast(out, text, layout, sides, "CAST_RINT")
        case Widen():
            narrow = f"v{step.source}.ReinterpretCast<{CPP_TYPE[step.dtype]}>()"
            sides = Lines(f"v{i}", layout.pitch), Lines(narrow, _half_pitch(layout, step))
            write_cast(out, text, layout, sides, "CAST_NONE")
        case Reduce():
            _write_reduce(out, text, i, step)
        case Pack():
            out.line(f"Duplicate(v{i}, 0.0f, {elements});")
            offsets = f"{PACK_TABLE}.ReinterpretCast<uint32_t>()"
            out.line(f"Gather(v{i}, v{step.source}, {offsets}, 0, {text.lines(layout)});")
        case Spread():
            text.helpers.add("SpreadNumbers")
            out.line(f"SpreadNumbers(v{i}, v{step.source}, {text.lines(layout)});")
        case Columns():
            _write_columns(out, text, i, step)
        case Join():
            _write_join(out, text, i, step)
        case Interleave():
            _write_gather(out, text, i, "arena", text.layout(step.left).pitch)
        case Repeat():
            _write_repeat(out, text, i, step)
        case _:
            raise TypeError(f"not a computing step: {step}")


def _half_pitch(layout: Layout, step: Narrow | Widen) -> int:
    return layout.half_pitch if step.dtype is DType.F16 else layout.pitch


def _write_reduce(out: CppWriter, text: TileText, i: int, step: Reduce) -> None:
    source, result = text.layout(step.source), text.layout(i)
    packed = result.form is Form.SCALAR
    if packed:
        out.line(f"Duplicate(v{i}, 0.0f, {signed(text.elements(result))});")
    with out.block(f"for (uint32_t line = 0; line < {text.lines(source)}; ++line)"):
        place = "line" if packed else "line * 8"
        out.line(
            f"{step.instruction}(v{i}[{place}], v{step.source}[line * {source.pitch}], work, "
            f"{source.columns});"
        )


def _write_columns(out: CppWriter, text: TileText, i: int, step: Columns) -> None:
    source, result = text.layout(step.source), text.layout(i)
    if uses_pattern(text.plan.program, i):
        text.helpers.add("TakeEverySecond")
        out.line(f"TakeEverySecond(v{i}, v{step.source}, {step.start}, {text.elements(source)});")
    elif uses_block_copy(text.plan.program, i):
        text.helpers.add("CopyBlocks")
        gap = (source.pitch - result.pitch) // BLOCK_FLOATS
        out.line(
            f"CopyBlocks(v{i}, v{step.source}{index(str(step.start))}, {text.lines(result)}, "
            f"{result.pitch // BLOCK_FLOATS}, {gap}, 0);"
        )
    else:
        _write_gather(out, text, i, f"v{step.source}", source.pitch)


def _write_gather(out: CppWriter, text: TileText, i: int, source: str, pitch: int) -> None:
    """Gather line by line with the step's table; padding becomes zero."""
    layout = text.layout(i)
    if layout.pitch != layout.columns:
        out.line(f"Duplicate(v{i}, 0.0f, {signed(text.elements(layout))});")
    with out.block(f"for (uint32_t line = 0; line < {text.lines(layout)}; ++line)"):
        out.line(
            f"Gather(v{i}[line * {layout.pitch}], {source}, "
            f"{table_name(i)}.ReinterpretCast<uint32_t>(), line * {4 * pitch}, {layout.columns});"
        )


def _write_join(out: CppWriter, text: TileText, i: int, step: Join) -> None:
    text.helpers.add("CopyBlocks")
    result = text.layout(i)
    start = 0
    for part in step.sources:
        own = text.layout(part)
        gap = (result.pitch - own.pitch) // BLOCK_FLOATS
        out.line(
            f"CopyBlocks(v{i}{index(str(start))}, v{part}, {text.lines(result)}, "
            f"{own.pitch // BLOCK_FLOATS}, 0, {gap});"
        )
        start += own.columns


def _write_repeat(out: CppWriter, text: TileText, i: int, step: Repeat) -> None:
    layout = text.layout(i)
    with out.block(f"for (uint32_t line = 0; line < {text.lines(layout)}; ++line)"):
        out.line(
            f"DataCopy(v{i}[line * {layout.pitch}], "
            f"v{step.source}[line / {layout.groups} * {layout.pitch}], {layout.pitch});"
        )


@dataclass(frozen=True, slots=True)
class _Access:
    """How an operand is read: elements from row to row and line to line, 0 for again."""

    row: int
    line: int
    block: int


def _access(own: Layout, result: Layout) -> _Access:
    pitch = own.pitch
    block = 0 if own.form is Form.BLOCK else 1
    row = own.groups * pitch if own.per_row else 0
    if result.groups == 1:
        return _Access(row, row, block)
    return _Access(row, pitch if own.groups > 1 else 0, block)


def _write_combine(out: CppWriter, text: TileText, i: int, step: Combine) -> None:
    result = text.layout(i)
    left, right = text.layout(step.left), text.layout(step.right)
    call = f"(v{i}, v{step.left}, v{step.right}, "
    in_pieces = text.plan.tile.piece > 0
    spreads = Form.BLOCK in (left.form, right.form)
    if left == result == right or (in_pieces and not spreads):
        out.line(f"{step.instruction}{call}{signed(text.elements(result))});")
        return
    if result.form is Form.SCALAR or in_pieces:
        name = f"{step.instruction}Columns"
        text.helpers.add(name)
        blocks = [0 if each.form is Form.BLOCK else 1 for each in (left, right)]
        out.line(f"{name}{call}1, {text.elements(result)}, 0, 0, {blocks[0]}, 0, {blocks[1]});")
        return
    accesses = (_access(left, result), _access(right, result))
    _write_lines(out, text, i, step, accesses)


def _write_lines(
    out: CppWriter, text: TileText, i: int, step: Combine, accesses: tuple[_Access, _Access]
) -> None:
    """Write a combination with repeated operands, in the form with the fewest instructions."""
    result = text.layout(i)
    pitch, groups = result.pitch, result.groups
    own_row = groups * pitch
    even = all(each.row == groups * each.line for each in accesses)
    plain = all(each.block and (groups == 1 or each.line == pitch) for each in accesses)
    lines = text.plan.tile.rows * groups
    short = pitch <= _LONGEST_STRIDE
    if plain and (not short or -(-pitch // REPEAT_FLOATS) * groups >= text.plan.tile.rows):
        with out.block(f"for (uint32_t i = 0; i < {text.rows(result)}; ++i)"):
            operands = ", ".join(
                f"v{value}{index(times('i', access.row) if access.row else '0')}"
                for value, access in zip((step.left, step.right), accesses, strict=True)
            )
            out.line(f"{step.instruction}(v{i}[i * {own_row}], {operands}, {own_row});")
        return
    by_lines = short and (-(-pitch // REPEAT_FLOATS) <= lines or groups > 1)
    name = f"{step.instruction}{'Lines' if by_lines else 'Columns'}"
    text.helpers.add(name)
    shape = ", ".join(f"{access.line}, {access.block}" for access in accesses)
    if even:
        out.line(
            f"{name}(v{i}, v{step.left}, v{step.right}, {text.lines(result)}, {pitch}, {pitch}, "
            f"{shape});"
        )
        return
    with out.block(f"for (uint32_t i = 0; i < {text.rows(result)}; ++i)"):
        operands = ", ".join(
            f"v{value}{index(times('i', access.row) if access.row else '0')}"
            for value, access in zip((step.left, step.right), accesses, strict=True)
        )
        out.line(f"{name}(v{i}[i * {own_row}], {operands}, {groups}, {pitch}, {pitch}, {shape});")
