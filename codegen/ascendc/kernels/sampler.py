"""The struct `Sampler` of the kernels that choose tokens: its buffers, constants and text."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import BLOCK_FLOATS, SORT_ALIGNMENT, round_up
from ascendfx.codegen.ascendc.kernels.merge_lists_text import MERGE_LISTS
from ascendfx.codegen.ascendc.kernels.reduction_work import reduce_max_work_elements
from ascendfx.codegen.ascendc.kernels.replace_once import replace_once
from ascendfx.codegen.ascendc.kernels.sample_tokens_choice_text import CUT
from ascendfx.codegen.ascendc.kernels.sample_tokens_text import (
    LOADING,
    MEMBERS,
    SCANNING,
    SORTING,
    UNIFORM,
    variant,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import BufferKind, LocalBuffer, float_literal
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import OPTION_COLUMNS, STATE_COLUMNS, STOP_COLUMNS, Option, State
from ascendfx.ir.tensor_type import DType

KEPT = 1_024
"""Candidates of a row with filters."""
_TILE = 4_096
_LEAST_TILE = 64
_LIST = 512
_CHUNK = 3 * _LIST
"""A merge takes four lists: the kept ones and three new."""
_HALVINGS = 32
MAX_COLUMNS = 2**24
"""Ids are sorted as f32, which holds these exactly."""


@dataclass(frozen=True, slots=True)
class SamplerParts:
    """What a kernel adds to the struct.

    Attributes:
        buffers: Its buffers, multiples of 256 bytes; each scratch buffer is a tensor of its name.
        integers: Tensors of i32.
        compared: Queues of i32 tiles that comparisons read.
    """

    buffers: tuple[LocalBuffer, ...] = ()
    integers: tuple[str, ...] = ()
    compared: tuple[str, ...] = ()


NO_PARTS = SamplerParts()


def check_vocabulary(family: str, columns: int) -> None:
    """Check that ids can be sorted.

    Raises:
        GraphError: f32 does not hold all of them.
    """
    if columns > MAX_COLUMNS:
        raise GraphError(
            code="vocabulary-too-large",
            reason=f"{family}: {columns:,} tokens, at most {MAX_COLUMNS:,}",
            hint="ids are sorted as float32; no tokenizer comes near",
        )


def tile_of(columns: int) -> int:
    """Return the columns that are read at a time, a power of two."""
    return min(_TILE, max(_LEAST_TILE, 1 << (columns - 1).bit_length()))


def sampler_buffers(columns: int, dtype: DType) -> tuple[LocalBuffer, ...]:
    """Return the buffers; those the sorter writes come first, aligned to 256 bytes."""
    tile = tile_of(columns)
    tiles = -(-columns // tile)

    def scratch(name: str, elements: int, align: int = SORT_ALIGNMENT) -> LocalBuffer:
        return LocalBuffer(f"{name}Buffer", BufferKind.SCRATCH, round_up(elements * 4, align))

    work = max(reduce_max_work_elements(tile, with_index=True), BLOCK_FLOATS)
    table = round_up(tiles, BLOCK_FLOATS)
    buffers = [
        scratch("sorted", 2 * max(_CHUNK, KEPT)),
        scratch("merged", 2 * (KEPT + _CHUNK)),
        scratch("kept", 2 * KEPT),
        scratch("newValues", tile + _CHUNK),
        scratch("newIds", tile + _CHUNK),
        scratch("weights", max(tile, KEPT)),
        scratch("index", tile),
        scratch("bits", tile // 32),
        *(scratch(name, table, 32) for name in ("maxima", "sums", "masses")),
        scratch("work", work, 32),
        scratch("pair", BLOCK_FLOATS, 32),
        LocalBuffer("logitQueue", BufferKind.INPUT, tile * dtype.bytes, copies=2),
    ]
    if dtype is not DType.F32:
        buffers.append(scratch("values", tile))
    return tuple(buffers)


def sampler_constants(columns: int, dtype: DType) -> dict[str, int | str]:
    """Return the constants that the text names."""
    tile = tile_of(columns)
    options = (Option.TEMPERATURE, Option.TOP_K, Option.TOP_P, Option.MIN_P)
    state = (State.LENGTH, State.GENERATED, State.MINIMUM, State.SEED_LOW, State.SEED_HIGH)
    return {
        "COLUMNS": columns,
        "TILE": tile,
        "TILES": -(-columns // tile),
        "ELEMENT_BYTES": dtype.bytes,
        "KEPT": KEPT,
        "LIST": _LIST,
        "CHUNK": _CHUNK,
        "HALVINGS": _HALVINGS,
        "STATE_COLUMNS": STATE_COLUMNS,
        "STOP_COLUMNS": STOP_COLUMNS,
        "OPTION_COLUMNS": OPTION_COLUMNS,
        "STOPS": STATE_COLUMNS,
        "OPTIONS": STATE_COLUMNS + STOP_COLUMNS,
        **{each.name: int(each) for each in (*options, *state)},
        "LOWEST": float_literal(-math.inf),
        "INFINITE": float_literal(math.inf),
        "LEAST": "-3.4028234663852886e38f",
    }


def write_sampler(
    out: CppWriter,
    columns: int,
    dtype: DType,
    choosing: Sequence[str],
    marks: str = "",
    more: SamplerParts = NO_PARTS,
) -> None:
    """Write the struct and the functions that it uses.

    Args:
        out: Text so far.
        columns: Row length in elements.
        dtype: Element format of the logits.
        choosing: What comes behind the pass.
        marks: Of the lines to write; see `variant`.
        more: What the kernel has beside the pass.
    """
    is_f32 = dtype is DType.F32
    loaded = "values = tile;" if is_f32 else "Cast(values, tile, RoundMode::CAST_NONE, count);"
    merging = (MERGE_LISTS,) if any("MergeLists(" in text for text in choosing) else ()
    for text in (UNIFORM, *merging, SORTING, CUT):
        out.lines(text.splitlines())
        out.line()
    buffers = (*more.buffers, *sampler_buffers(columns, dtype))
    out.line("// What a core does with a row.")
    with out.block("struct Sampler", close="};"):
        for buffer in buffers:
            out.line(f"{buffer.kind.value} {buffer.name};")
        out.lines(MEMBERS.splitlines())
        out.line()
        with out.block(
            "__aicore__ inline void Init(TPipe& pipe, const GlobalTensor<Element>& rows)"
        ):
            _write_init(out, columns, dtype, more)
        for text in (replace_once(LOADING, ("%VALUES%", loaded)), SCANNING, *choosing):
            out.line()
            out.lines(variant(text, marks))
    out.line()


def _write_init(out: CppWriter, columns: int, dtype: DType, more: SamplerParts) -> None:
    scalars = {"newIds": "int32_t", "index": "int32_t", "bits": "uint8_t"}
    scalars |= dict.fromkeys(more.integers, "int32_t")
    for buffer in (*more.buffers, *sampler_buffers(columns, dtype)):
        copies = "" if buffer.kind is BufferKind.SCRATCH else f"{buffer.copies}, "
        out.line(f"pipe.InitBuffer({buffer.name}, {copies}{buffer.bytes});")
        if buffer.kind is BufferKind.SCRATCH:
            tensor = buffer.name.removesuffix("Buffer")
            out.line(f"{tensor} = {buffer.name}.Get<{scalars.get(tensor, 'float')}>();")
    out.line("logits = rows;")
    out.line("CreateVecIndex(index, static_cast<int32_t>(0), TILE);")
    if columns % 64:
        out.line("// Comparisons read whole repeats, the last one beyond the row.")
        if dtype is DType.F32:
            with out.block("for (uint32_t i = 0; i < 2; ++i)"):
                out.line("tile = logitQueue.AllocTensor<Element>();")
                out.line("Duplicate(tile, 0.0f, static_cast<int32_t>(TILE));")
                out.line("logitQueue.FreeTensor(tile);")
        else:
            out.line("Duplicate(values, 0.0f, static_cast<int32_t>(TILE));")
        for queue in more.compared:
            out.line(f"LocalTensor<int32_t> {queue}Tile = {queue}.AllocTensor<int32_t>();")
            out.line(f"Duplicate({queue}Tile, 0, static_cast<int32_t>(TILE));")
            out.line(f"{queue}.FreeTensor({queue}Tile);")
    out.line("Duplicate(weights, 0.0f, static_cast<int32_t>(TILE));")
    out.line("Duplicate(newValues, 0.0f, static_cast<int32_t>(TILE));")


def write_tables(out: CppWriter, tables: Sequence[LocalBuffer]) -> None:
    """Declare the queues that stand outside the struct."""
    for table in tables:
        out.line(f"{table.kind.value} {table.name};")
        out.line(f"pipe.InitBuffer({table.name}, {table.copies}, {table.bytes});")
