"""A token per row of logits: the first of the largest, or one drawn from what filters leave.

One core takes a row at a time and reads it once, in tiles. Per tile it keeps the maximum and the
sum of ``exp((x - maximum) / temperature)``, so that no sum ever overflows; rows with filters also
keep the ``KEPT`` best candidates: what is larger than the least of them is compacted
(`GatherMask`) and, whenever ``CHUNK`` wait, sorted and merged (`Sort32`, `MrgSort`). No row is
sorted and no prefix sum made. Behind the pass,

* a greedy row is done; a row without filters chooses a tile by the sums and reads it once more;
* a row with filters finds its prefix among the kept ones, sorts those by id and draws.

The draw walks in the order of ids, by sums of halves (`Find`). For V = 129,280 in f32 a row with
filters takes 37 copies and 380 to 450 vector instructions on 8.0 to 8.7 elements per logit, one
without 186 on 5.3, a greedy one 168 on 5.1, whatever k, p and their mixture are. A smaller k leaves
fewer candidates to sort, at 2 records per cycle: by the rates of the vector unit the sorting takes
a third of the time for k = 1 and half for k = 1,000 or a nucleus.

**Rows whose prefix is longer than what is kept** (k above ``KEPT``, or a nucleus or a min-p that
does not end within it; a row that has ``KEPT`` finite logits or fewer never is one) are exact, too:
the end of the prefix is found by bisection on the value with counts and masses, one read per step,
about 20 for each of top-k and top-p, at most ``HALVINGS + 33``; equal values at the end are counted
by id; two more reads draw. For V = 129,280 that is 14 times the vector work of other rows and 25
reads, twice this for a row that needs both. Of the filters in use it needs a flat distribution, as
at a high temperature: 1,024 tokens that together are less likely than ``top_p``.

**Rounding.** With ``u = 2^-24`` and ``d`` the distance of a logit to the maximum over the
temperature, a weight is off by ``(3 d + 9) u`` relatively, sums of them by another
``(TILE / 64 + TILES + 18) u``. The token is that of the reference unless the random number, the
end of the nucleus or that of min-p lies within twice this of a border
(`tests/kernels/sampling_case.py`).
Temperatures are taken as at least 1e-30 and at most 1e30.
"""

import math
from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import BLOCK_FLOATS, SORT_ALIGNMENT, round_up
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.merge_lists_text import MERGE_LISTS
from ascendfx.codegen.ascendc.kernels.reduction_work import reduce_max_work_elements
from ascendfx.codegen.ascendc.kernels.sample_tokens_choice_text import BEYOND, CHOOSING, CUT
from ascendfx.codegen.ascendc.kernels.sample_tokens_text import (
    LOADING,
    MEMBERS,
    SAMPLING,
    SCANNING,
    SORTING,
    UNIFORM,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    CPP_TYPE,
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    blocks_for,
    check_dtype,
    check_local_buffers,
    check_positive,
    float_literal,
    kernel_function,
    local_bytes,
    through_queue,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
    Stream,
)
from ascendfx.ir.tensor_type import DType

_FAMILY = "sample-tokens"
_TILE = 4_096
_LEAST_TILE = 64
_KEPT = 1_024
_LIST = 512
_CHUNK = 3 * _LIST
"""A merge takes four lists: the kept ones and three new."""
_HALVINGS = 32
_MAX_COLUMNS = 2**24
"""Ids are sorted as f32, which holds these exactly."""


@dataclass(frozen=True, slots=True)
class SampleTokensPlan:
    """How rows are read.

    Attributes:
        rows: Number of rows, read from the device.
        requests: Rows of options, state and stop tokens.
        columns: Row length in elements.
        dtype: Element format of the logits.
        tile: Columns read at a time, a power of two.
        blocks: Vector cores used.
        tables: Local memory of numbers per row and request.
        buffers: Local memory of the pass.
    """

    rows: DeviceSize
    requests: int
    columns: int
    dtype: DType
    tile: int
    blocks: int
    tables: tuple[LocalBuffer, ...]
    buffers: tuple[LocalBuffer, ...]

    @property
    def tiles(self) -> int:
        """Tiles of a row."""
        return -(-self.columns // self.tile)


def plan_sample_tokens(
    *, rows: DeviceSize, requests: int, columns: int, dtype: DType, target: Target
) -> SampleTokensPlan:
    """Choose the tile.

    Raises:
        GraphError: A size is not positive, the tokens of one core do not fit, or ids are not
            numbers that f32 holds.
    """
    check_dtype(_FAMILY, dtype)
    check_positive(_FAMILY, rows=rows.capacity, requests=requests, columns=columns)
    if columns > _MAX_COLUMNS:
        raise GraphError(
            code="vocabulary-too-large",
            reason=f"{_FAMILY}: {columns:,} tokens, at most {_MAX_COLUMNS:,}",
            hint="ids are sorted as float32; no tokenizer comes near",
        )
    blocks = blocks_for(rows.capacity, target)
    tile = min(_TILE, max(_LEAST_TILE, 1 << (columns - 1).bit_length()))
    share = round_up(-(-rows.capacity // blocks) * 4, target.copy_granule)
    request = (STATE_COLUMNS + STOP_COLUMNS + OPTION_COLUMNS) * 4
    tables = (
        LocalBuffer("positionQueue", BufferKind.INPUT, share),
        LocalBuffer("placeQueue", BufferKind.INPUT, share),
        LocalBuffer("requestQueue", BufferKind.INPUT, request),
        LocalBuffer("tokenQueue", BufferKind.OUTPUT, share),
    )
    buffers = _buffers(tile, -(-columns // tile), dtype)
    check_local_buffers(_FAMILY, (*tables, *buffers), target)
    return SampleTokensPlan(rows, requests, columns, dtype, tile, blocks, tables, buffers)


def _buffers(tile: int, tiles: int, dtype: DType) -> tuple[LocalBuffer, ...]:
    """Return the buffers; those the sorter writes come first, aligned to 256 bytes."""

    def scratch(name: str, elements: int, align: int = SORT_ALIGNMENT) -> LocalBuffer:
        return LocalBuffer(f"{name}Buffer", BufferKind.SCRATCH, round_up(elements * 4, align))

    work = max(reduce_max_work_elements(tile, with_index=True), BLOCK_FLOATS)
    table = round_up(tiles, BLOCK_FLOATS)
    buffers = [
        scratch("sorted", 2 * max(_CHUNK, _KEPT)),
        scratch("merged", 2 * (_KEPT + _CHUNK)),
        scratch("kept", 2 * _KEPT),
        scratch("newValues", tile + _CHUNK),
        scratch("newIds", tile + _CHUNK),
        scratch("weights", max(tile, _KEPT)),
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


def emit_sample_tokens(plan: SampleTokensPlan, name: str) -> Kernel:
    """Return the kernel; arguments as the operation, then ``tokens, sizes``."""
    rows, requests = plan.rows.capacity, plan.requests
    arguments = (
        KernelArgument("logits", plan.dtype, Direction.IN, rows * plan.columns),
        KernelArgument("options", DType.F32, Direction.IN, requests * OPTION_COLUMNS),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        KernelArgument("stop_ids", DType.I32, Direction.IN, requests * STOP_COLUMNS),
        KernelArgument("positions", DType.I32, Direction.IN, rows),
        KernelArgument("row_request", DType.I32, Direction.IN, rows),
        KernelArgument("tokens", DType.I32, Direction.OUT, rows),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    comment = (
        f"{name}: a token for each row of {plan.columns} {plan.dtype.value}, i < sizes"
        f"[{plan.rows.slot}] <= {rows}, as its request wants it;",
        f"tiles of {plan.tile}, {_KEPT} candidates kept, a row per core at a time over "
        f"{plan.blocks} cores; {local_bytes((*plan.tables, *plan.buffers)):,} bytes of local "
        "memory.",
    )
    write_head(out, comment, _constants(plan), f"using Element = {CPP_TYPE[plan.dtype]};")
    for text in (UNIFORM, MERGE_LISTS, SORTING, CUT):
        out.lines(text.splitlines())
        out.line()
    _write_sampler(out, plan)
    out.line()
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_split(out, "rows")
        out.line("TPipe pipe;")
        out.line("Sampler sampler;")
        out.line("sampler.Init(pipe, logitsGm);")
        for table in plan.tables:
            out.line(f"{table.kind.value} {table.name};")
            out.line(f"pipe.InitBuffer({table.name}, {table.copies}, {table.bytes});")
        _write_rows(out)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _constants(plan: SampleTokensPlan) -> dict[str, int | str]:
    columns = (Option.TEMPERATURE, Option.TOP_K, Option.TOP_P, Option.MIN_P)
    state = (State.LENGTH, State.GENERATED, State.MINIMUM, State.SEED_LOW, State.SEED_HIGH)
    return {
        "BLOCKS": plan.blocks,
        "COLUMNS": plan.columns,
        "TILE": plan.tile,
        "TILES": plan.tiles,
        "ELEMENT_BYTES": plan.dtype.bytes,
        "KEPT": _KEPT,
        "LIST": _LIST,
        "CHUNK": _CHUNK,
        "HALVINGS": _HALVINGS,
        "STATE_COLUMNS": STATE_COLUMNS,
        "STOP_COLUMNS": STOP_COLUMNS,
        "OPTION_COLUMNS": OPTION_COLUMNS,
        "STOPS": STATE_COLUMNS,
        "OPTIONS": STATE_COLUMNS + STOP_COLUMNS,
        **{each.name: int(each) for each in (*columns, *state)},
        "STREAM": int(Stream.SAMPLE),
        "LOWEST": float_literal(-math.inf),
        "INFINITE": float_literal(math.inf),
        "LEAST": "-3.4028234663852886e38f",
    }


def _write_sampler(out: CppWriter, plan: SampleTokensPlan) -> None:
    is_f32 = plan.dtype is DType.F32
    loaded = "values = tile;" if is_f32 else "Cast(values, tile, RoundMode::CAST_NONE, count);"
    out.line("// What a core does with a row.")
    with out.block("struct Sampler", close="};"):
        for buffer in plan.buffers:
            out.line(f"{buffer.kind.value} {buffer.name};")
        out.lines(MEMBERS.splitlines())
        out.line()
        with out.block(
            "__aicore__ inline void Init(TPipe& pipe, const GlobalTensor<Element>& rows)"
        ):
            _write_init(out, plan)
        for text in (LOADING.replace("@VALUES@", loaded), SCANNING, CHOOSING, BEYOND, SAMPLING):
            out.line()
            out.lines(text.splitlines())


def _write_init(out: CppWriter, plan: SampleTokensPlan) -> None:
    scalars = {"newIds": "int32_t", "index": "int32_t", "bits": "uint8_t"}
    for buffer in plan.buffers:
        copies = "" if buffer.kind is BufferKind.SCRATCH else f"{buffer.copies}, "
        out.line(f"pipe.InitBuffer({buffer.name}, {copies}{buffer.bytes});")
        if buffer.kind is BufferKind.SCRATCH:
            tensor = buffer.name.removesuffix("Buffer")
            out.line(f"{tensor} = {buffer.name}.Get<{scalars.get(tensor, 'float')}>();")
    out.line("logits = rows;")
    out.line("CreateVecIndex(index, static_cast<int32_t>(0), TILE);")
    if plan.columns % 64:
        out.line("// Comparisons read whole repeats, the last one beyond the row.")
        if plan.dtype is DType.F32:
            with out.block("for (uint32_t i = 0; i < 2; ++i)"):
                out.line("tile = logitQueue.AllocTensor<Element>();")
                out.line("Duplicate(tile, 0.0f, static_cast<int32_t>(TILE));")
                out.line("logitQueue.FreeTensor(tile);")
        else:
            out.line("Duplicate(values, 0.0f, static_cast<int32_t>(TILE));")
    out.line("Duplicate(weights, 0.0f, static_cast<int32_t>(TILE));")
    out.line("Duplicate(newValues, 0.0f, static_cast<int32_t>(TILE));")


def _write_rows(out: CppWriter) -> None:
    out.line("const uint32_t count = last - first;")
    for queue, variable, tensor in (
        ("positionQueue", "positionsLocal", "positions"),
        ("placeQueue", "placesLocal", "row_request"),
    ):
        with through_queue(out, queue, variable, "int32_t"):
            out.line(f"CopyIn({variable}, {tensor}Gm[first], 1, count * 4, 0, 0);")
    with (
        through_queue(out, "tokenQueue", "tokensLocal", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        out.line("const uint64_t place = static_cast<uint64_t>(placesLocal.GetValue(i));")
        with through_queue(out, "requestQueue", "request", "int32_t"):
            for at, tensor, width in (
                ("request", "state", "STATE_COLUMNS"),
                ("request[STOPS]", "stop_ids", "STOP_COLUMNS"),
                ("request[OPTIONS].ReinterpretCast<float>()", "options", "OPTION_COLUMNS"),
            ):
                out.line(f"CopyIn({at}, {tensor}Gm[place * {width}], 1, {width} * 4, 0, 0);")
        out.line("sampler.rowStart = static_cast<uint64_t>(first + i) * COLUMNS;")
        out.line(
            "tokensLocal.SetValue(i, sampler.Sample(request, positionsLocal.GetValue(i)));",
        )
        out.line("requestQueue.FreeTensor(request);")
    out.line("CopyOut(tokensGm[first], tokensLocal, 1, count * 4, 0, 0);")
    out.line("tokenQueue.FreeTensor(tokensLocal);")
    out.line("placeQueue.FreeTensor(placesLocal);")
    out.line("positionQueue.FreeTensor(positionsLocal);")
