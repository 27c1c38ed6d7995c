"""Text of the steps that move data between global and local memory."""

from dataclasses import replace

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernels.vector_chain.cast_text import Lines, write_cast
from ascendfx.codegen.ascendc.kernels.vector_chain.layout import Form, GlobalView, Layout
from ascendfx.codegen.ascendc.kernels.vector_chain.plan import (
    queue_name,
    queue_pitch,
    stored_columns,
)
from ascendfx.codegen.ascendc.kernels.vector_chain.program import Load, Store
from ascendfx.codegen.ascendc.kernels.vector_chain.tile_text import TileText, index, times
from ascendfx.codegen.ascendc.kernels.vector_kernel import CPP_TYPE, through_queue
from ascendfx.ir.tensor_type import DType

_BY_WAY_OF_HALF = (DType.I8, DType.I4X2)


def write_load(out: CppWriter, text: TileText, i: int, step: Load) -> None:
    """Copy a view in and on into the arena, as f32 or half; some f32 is used where it lands."""
    dtype, layout = text.dtype(step.argument), text.layout(i)
    queued = text.is_queued(i)
    queue = f"v{i}Queue" if queued else queue_name(step, dtype)
    local = f"v{i}" if queued else f"{step.argument}Local{i}"
    with through_queue(out, queue, local, CPP_TYPE[dtype]):
        if step.numbers is None:
            _write_transfer(out, text, step.argument, step.view, layout, local, inward=True)
        else:
            _write_rows(out, text, step, layout, local)
    if queued:
        return
    if dtype is DType.F32:
        out.line(f"DataCopy(v{i}, {local}, {text.elements(layout)});")
    else:
        landed = Lines(local, queue_pitch(layout.columns, dtype))
        sides = (_converted(f"v{i}", layout, dtype), landed)
        write_cast(out, text, layout, sides, "CAST_RINT" if dtype is DType.I32 else "CAST_NONE")
    out.line(f"{queue}.FreeTensor({local});")


def write_store(out: CppWriter, text: TileText, i: int, step: Store) -> None:
    """Round a value to its argument's format and copy it out."""
    dtype, layout = text.dtype(step.argument), text.layout(i)
    stored = replace(layout, columns=stored_columns(layout, dtype))
    queue, local = queue_name(step, dtype), f"{step.argument}Local{i}"
    with through_queue(out, queue, local, CPP_TYPE[dtype]):
        if dtype is DType.F32:
            out.line(f"DataCopy({local}, v{step.source}, {text.elements(layout)});")
        else:
            source = _converted(f"v{step.source}", layout, dtype)
            pairs, pitch = dtype is DType.I4X2, queue_pitch(stored.columns, dtype)
            queued = Lines(local, 2 * pitch if pairs else pitch, pairs)
            mode = "CAST_NONE" if dtype in _BY_WAY_OF_HALF else "CAST_RINT"
            write_cast(out, text, layout, (queued, source), mode)
    _write_transfer(out, text, step.argument, step.view, stored, local, inward=False)
    out.line(f"{queue}.FreeTensor({local});")


def _converted(value: str, layout: Layout, dtype: DType) -> Lines:
    """Return what a queue of format ``dtype`` is cast from or to: f32, but half for codes."""
    if dtype in _BY_WAY_OF_HALF:
        return Lines(f"{value}.ReinterpretCast<half>()", layout.half_pitch)
    return Lines(value, layout.pitch)


def _write_transfer(
    out: CppWriter,
    text: TileText,
    argument: str,
    view: GlobalView,
    layout: Layout,
    local: str,
    *,
    inward: bool,
) -> None:
    """Write the copies of all lines, as few instructions as the view allows."""
    size = text.dtype(argument).bytes
    pitch = queue_pitch(layout.columns, text.dtype(argument))
    width = text.width(layout)
    whole = layout.form is Form.SCALAR or (pitch == view.columns and not text.plan.tile.piece)
    if view.is_dense and whole:
        count, length, gap = "1", times(text.lines(layout), view.columns), "0"
    elif text.plan.tile.piece:
        count, length, gap = "1", width, "0"
    elif view.is_even:
        count, length = text.lines(layout), width
        gap = str((view.line_stride - view.columns) * size if view.line_stride else 0)
    else:
        gap = str((view.group_stride - view.columns) * size)
        with out.block(f"for (uint32_t i = 0; i < {text.rows(layout)}; ++i)"):
            start = _start(view, text, "row + i")
            part = f"{local}[i * {layout.groups * pitch}]"
            sizes = (str(layout.groups), times(width, size), gap)
            _write_copy(out, argument, start, part, sizes, inward=inward)
        return
    start = _start(view, text, "row" if layout.per_row else "0")
    sizes = (count, times(length, size), gap)
    _write_copy(out, argument, start, local, sizes, inward=inward)


def _write_rows(out: CppWriter, text: TileText, step: Load, layout: Layout, local: str) -> None:
    """Write the copies of rows by number; the numbers are whole f32."""
    dtype, view = text.dtype(step.argument), step.view
    pitch = queue_pitch(layout.columns, dtype)
    first = _start(replace(view, row_stride=0), text, "row")
    column = "" if first == "0" else f" + {first}"
    with out.block(f"for (uint32_t i = 0; i < {text.rows(layout)}; ++i)"):
        out.line(f"const uint32_t number = static_cast<uint32_t>(v{step.numbers}.GetValue(i));")
        start = f"static_cast<uint64_t>(number) * {view.row_stride}{column}"
        sizes = ("1", times(text.width(layout), dtype.bytes), "0")
        _write_copy(out, step.argument, start, f"{local}[i * {pitch}]", sizes, inward=True)


def _start(view: GlobalView, text: TileText, row: str) -> str:
    """Return the subscript of the first element copied."""
    terms: list[str] = []
    if row != "0" and view.row_stride:
        terms.append(f"static_cast<uint64_t>({row}) * {view.row_stride}")
    if view.offset:
        terms.append(str(view.offset))
    if text.plan.tile.piece and view.columns > 1:
        terms.append("column")
    return " + ".join(terms) or "0"


def _write_copy(
    out: CppWriter,
    argument: str,
    start: str,
    local: str,
    sizes: tuple[str, str, str],
    *,
    inward: bool,
) -> None:
    count, length, gap = sizes
    place = f"{argument}Gm{index(start)}"
    if inward:
        out.line(f"CopyIn({local}, {place}, {count}, {length}, {gap}, 0);")
    else:
        out.line(f"CopyOut({place}, {local}, {count}, {length}, 0, {gap});")
