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

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import round_up
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.sample_tokens_choice_text import BEYOND, CHOOSING
from ascendfx.codegen.ascendc.kernels.sample_tokens_text import SAMPLING
from ascendfx.codegen.ascendc.kernels.sampler import (
    KEPT,
    check_vocabulary,
    sampler_buffers,
    sampler_constants,
    tile_of,
    write_sampler,
    write_tables,
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
    kernel_function,
    local_bytes,
    through_queue,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Stream,
)
from ascendfx.ir.tensor_type import DType

_FAMILY = "sample-tokens"


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
    check_vocabulary(_FAMILY, columns)
    blocks = blocks_for(rows.capacity, target)
    tile = tile_of(columns)
    share = round_up(-(-rows.capacity // blocks) * 4, target.copy_granule)
    request = (STATE_COLUMNS + STOP_COLUMNS + OPTION_COLUMNS) * 4
    tables = (
        LocalBuffer("positionQueue", BufferKind.INPUT, share),
        LocalBuffer("placeQueue", BufferKind.INPUT, share),
        LocalBuffer("requestQueue", BufferKind.INPUT, request),
        LocalBuffer("tokenQueue", BufferKind.OUTPUT, share),
    )
    buffers = sampler_buffers(columns, dtype)
    check_local_buffers(_FAMILY, (*tables, *buffers), target)
    return SampleTokensPlan(rows, requests, columns, dtype, tile, blocks, tables, buffers)


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
        f"tiles of {plan.tile}, {KEPT} candidates kept, a row per core at a time over "
        f"{plan.blocks} cores; {local_bytes((*plan.tables, *plan.buffers)):,} bytes of local "
        "memory.",
    )
    write_head(out, comment, _constants(plan), f"using Element = {CPP_TYPE[plan.dtype]};")
    write_sampler(out, plan.columns, plan.dtype, (CHOOSING, BEYOND, SAMPLING))
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_split(out, "rows")
        out.line("TPipe pipe;")
        out.line("Sampler sampler;")
        out.line("sampler.Init(pipe, logitsGm);")
        write_tables(out, plan.tables)
        _write_rows(out)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _constants(plan: SampleTokensPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        **sampler_constants(plan.columns, plan.dtype),
        "STREAM": int(Stream.SAMPLE),
    }


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
