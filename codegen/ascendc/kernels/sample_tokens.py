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

**Penalties** are applied to a tile as it comes in, with the tile of counts beside it: that is 32
copies and as many bytes again, and 3 (frequency), 4 (presence), 5 (repetition) or 10 (all) elements
per logit. Requests without penalties read no counts.

**Drafts.** A row whose token is coupled with a draft notes, as it is read, the logits of the tokens
that the draft was drawn from, which one instruction has sorted by id. Without filters it sums the
weights of the others tile by tile, so that what is left for them is a sum and no difference: at
most 32 more reductions. That and two small copies are what rejection and blocks cost: 195
instructions on 5.3 elements per logit without filters, 455 on 8.7 with; typical acceptance adds 4
elements per logit for the entropy, relaxed acceptance is a row with filters. Rows of a place stand
together, however many it has. A core has whole places if it has as many rows as one can have, else
parts; of a block every core that has a part reads all rows, since they decide together. So a step
of few places takes as long as all rows of one, one after the other, if it has a block, and as long
as one row otherwise.

**Rows whose prefix is longer than what is kept** (k above ``KEPT``, or a nucleus or a min-p that
does not end within it; a row that has ``KEPT`` finite logits or fewer never is one) are exact, too:
the end of the prefix is found by bisection on the value with counts and masses, one read per step,
about 20 for each of top-k and top-p, at most ``HALVINGS + 33``; equal values at the end are counted
by id; two more reads draw. For V = 129,280 that is 14 times the vector work of other rows and 25
reads, twice this for a row that needs both. Of the filters in use it needs a flat distribution, as
at a high temperature: 1,024 tokens that together are less likely than ``top_p``.

**Rounding.** With ``u = 2^-24`` and ``d`` the distance of a logit to the maximum over the
temperature, a weight is off by ``(3 d + 9) u`` relatively, sums of them by another
``e = (TILE / 64 + TILES + 18) u``. The token is that of the reference unless the random number, the
end of the nucleus or that of min-p lies within twice this of a border. A draft is decided as in the
reference unless the numbers that are compared are as close: the share of a recorded token is off
by ``(3 d + 9) u + e`` relatively, what is left of it by this times ``p + q``, the prefix of a block
by the sum of this over its drafts, ``exp(-entropy)`` by ``(4 + entropy + mean d) e``. Whatever is
rounded, what is drawn has a weight, and no recorded token is drawn as one of the others
(`tests/kernels/sampling_bounds.py`). A logit after penalties is off by 4 u of itself and of what
was taken off. Where f32 has no weight (below 1e-38 of the largest), a draft is never taken.
Temperatures are taken as at least 1e-30 and at most 1e30, ``RANKS`` as at most ``KEPT``.
"""

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
from ascendfx.codegen.ascendc.kernels.sample_tokens_choice_text import (
    BEYOND,
    BORDER,
    CHOOSING,
)
from ascendfx.codegen.ascendc.kernels.sample_tokens_coupling_text import (
    ACCEPTING,
    HIDING,
    RECORDING,
)
from ascendfx.codegen.ascendc.kernels.sample_tokens_penalty_text import (
    PENALISING,
    PLACES,
    REQUEST,
    ROWS,
    SAMPLING,
)
from ascendfx.codegen.ascendc.kernels.sample_tokens_text import (
    ALONE,
    COUPLING,
    PENALTIES,
    variant,
)
from ascendfx.codegen.ascendc.kernels.sampler import (
    KEPT,
    MAX_COLUMNS,
    SamplerParts,
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
    write_head,
    write_size,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import (
    DRAFT_CANDIDATES,
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
    Stream,
    Verification,
)
from ascendfx.ir.tensor_type import DType

_FAMILY = "sample-tokens"


@dataclass(frozen=True, slots=True)
class SampleTokensPlan:
    """How rows are read.

    Attributes:
        rows: Number of rows, read from the device.
        requests: Rows of options, state and stop tokens.
        places: Rows of counts.
        columns: Row length in elements.
        dtype: Element format of the logits.
        drafts: Draft tokens of a place.
        recorded: Tokens that are recorded of each.
        tile: Columns read at a time, a power of two.
        blocks: Vector cores used.
        tables: Local memory of numbers per row and request.
        parts: Local memory of penalties and couplings.
        buffers: Local memory of the pass.
    """

    rows: DeviceSize
    requests: int
    places: int
    columns: int
    dtype: DType
    drafts: int
    recorded: int
    tile: int
    blocks: int
    tables: tuple[LocalBuffer, ...]
    parts: SamplerParts
    buffers: tuple[LocalBuffer, ...]

    @property
    def tiles(self) -> int:
        """Tiles of a row."""
        return -(-self.columns // self.tile)

    @property
    def local(self) -> tuple[LocalBuffer, ...]:
        """All local memory."""
        return (*self.tables, *self.parts.buffers, *self.buffers)


def plan_sample_tokens(
    *,
    rows: DeviceSize,
    requests: int,
    places: int,
    columns: int,
    dtype: DType,
    target: Target,
    drafts: int = 0,
    recorded: int = DRAFT_CANDIDATES,
) -> SampleTokensPlan:
    """Choose the tile.

    Raises:
        GraphError: A size is not positive, the tokens of one core do not fit, ids are not numbers
            that f32 holds, or too many tokens are recorded.
    """
    check_dtype(_FAMILY, dtype)
    check_positive(
        _FAMILY,
        rows=rows.capacity,
        requests=requests,
        places=places,
        columns=columns,
        recorded=recorded,
        drafts=drafts + 1,
    )
    check_vocabulary(_FAMILY, columns)
    if recorded > DRAFT_CANDIDATES:
        raise GraphError(
            code="too-many-recorded",
            reason=f"{_FAMILY}: drafts are drawn from {recorded} tokens, at most "
            f"{DRAFT_CANDIDATES}",
            hint="as many as one instruction sorts",
        )
    blocks = blocks_for(rows.capacity, target)
    share = round_up(_share(rows.capacity, blocks, drafts + 1) * 4, target.copy_granule)
    request = (STATE_COLUMNS + STOP_COLUMNS + OPTION_COLUMNS) * 4
    tables = [
        LocalBuffer("positionQueue", BufferKind.INPUT, share),
        LocalBuffer("placeQueue", BufferKind.INPUT, share),
        LocalBuffer("requestQueue", BufferKind.INPUT, request),
        LocalBuffer("tokenQueue", BufferKind.OUTPUT, share),
    ]
    if drafts:
        tables.append(LocalBuffer("idQueue", BufferKind.INPUT, share))
    plan = SampleTokensPlan(
        rows,
        requests,
        places,
        columns,
        dtype,
        drafts,
        recorded,
        tile_of(columns),
        blocks,
        tuple(tables),
        _parts(columns, drafts),
        sampler_buffers(columns, dtype),
    )
    check_local_buffers(_FAMILY, plan.local, target)
    return plan


def _share(rows: int, blocks: int, group: int) -> int:
    """Return the rows of a core, and those around them that may be of the same places."""
    share = -(-rows // blocks)
    while share < group and group % share:
        share += 1
    return share + 2 * (group - 1)


def _parts(columns: int, drafts: int) -> SamplerParts:
    def scratch(name: str, elements: int) -> LocalBuffer:
        size = round_up(elements * 4, SORT_ALIGNMENT)
        return LocalBuffer(f"{name}Buffer", BufferKind.SCRATCH, size)

    counts = LocalBuffer("countQueue", BufferKind.INPUT, tile_of(columns) * 4)
    if not drafts:
        return SamplerParts((counts,), compared=("countQueue",))
    tiles = round_up(-(-columns // tile_of(columns)), BLOCK_FLOATS)
    buffers = (
        scratch("records", 2 * DRAFT_CANDIDATES),
        *(
            scratch(name, DRAFT_CANDIDATES)
            for name in ("recordIds", "recordShares", "noted", "shares", "lefts")
        ),
        *(scratch(name, tiles) for name in ("others", "moments")),
        counts,
        LocalBuffer("draftQueue", BufferKind.INPUT, 2 * DRAFT_CANDIDATES * 4),
    )
    return SamplerParts(buffers, ("recordIds",), compared=("countQueue",))


def emit_sample_tokens(plan: SampleTokensPlan, name: str) -> Kernel:
    """Return the kernel; arguments as the operation, then ``tokens, sizes``."""
    out = CppWriter()
    rows = "a row" if plan.drafts == 0 else f"up to {plan.drafts + 1} rows of a place"
    comment = (
        f"{name}: a token for each row of {plan.columns} {plan.dtype.value}, i < sizes"
        f"[{plan.rows.slot}] <= {plan.rows.capacity}, as its request wants it;",
        f"tiles of {plan.tile}, {KEPT} candidates kept, {rows} per core at a time over "
        f"{plan.blocks} cores; {local_bytes(plan.local):,} bytes of local memory.",
    )
    marks = PENALTIES + (COUPLING if plan.drafts else ALONE)
    coupled = (RECORDING, HIDING, ACCEPTING) if plan.drafts else (SAMPLING,)
    choosing = (REQUEST, PENALISING, CHOOSING, BORDER, BEYOND, *coupled)
    arguments = _arguments(plan)
    write_head(out, comment, _constants(plan), f"using Element = {CPP_TYPE[plan.dtype]};")
    write_sampler(out, plan.columns, plan.dtype, choosing, marks, plan.parts)
    if plan.drafts:
        out.lines(PLACES.splitlines())
        out.line()
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        head, body = ROWS.split("%TABLES%\n")
        out.lines(variant(head, marks))
        write_tables(out, plan.tables)
        out.lines(variant(body, marks))
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _arguments(plan: SampleTokensPlan) -> tuple[KernelArgument, ...]:
    rows, requests = plan.rows.capacity, plan.requests
    table = requests * plan.drafts * plan.recorded
    coupled = (
        KernelArgument("token_ids", DType.I32, Direction.IN, rows),
        KernelArgument("draft_ids", DType.I32, Direction.IN, table),
        KernelArgument("draft_probs", DType.F32, Direction.IN, table),
    )
    return (
        KernelArgument("logits", plan.dtype, Direction.IN, rows * plan.columns),
        KernelArgument("options", DType.F32, Direction.IN, requests * OPTION_COLUMNS),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        KernelArgument("stop_ids", DType.I32, Direction.IN, requests * STOP_COLUMNS),
        KernelArgument("positions", DType.I32, Direction.IN, rows),
        KernelArgument("row_request", DType.I32, Direction.IN, rows),
        KernelArgument("counts", DType.I32, Direction.IN, plan.places * plan.columns),
        *(coupled if plan.drafts else ()),
        KernelArgument("tokens", DType.I32, Direction.OUT, rows),
        SIZES_ARGUMENT,
    )


def _constants(plan: SampleTokensPlan) -> dict[str, int | str]:
    penalties = (State.PLACE, Option.REPETITION, Option.PRESENCE, Option.FREQUENCY, Stream.SAMPLE)
    constants: dict[str, int | str] = {
        "BLOCKS": plan.blocks,
        **sampler_constants(plan.columns, plan.dtype),
        **{each.name: int(each) for each in penalties},
    }
    if plan.drafts:
        verifying = (Option.VERIFICATION, Option.THRESHOLD, Option.SCALE, Option.RANKS)
        constants |= {
            "ROWS": plan.drafts + 1,
            "TABLE_COLUMNS": plan.recorded,
            "DRAFT_CANDIDATES": DRAFT_CANDIDATES,
            "NO_ID": MAX_COLUMNS,
            **{each.name: int(each) for each in (*verifying, State.DRAFTED, Stream.ACCEPT)},
            **{each.name: int(each) for each in Verification},
            "FAR": "-1e30f",
        }
    return constants
