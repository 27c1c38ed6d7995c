"""What a step leaves for the next one, in place: rows, states, tokens; see `AdvanceRequests`.

Scalars decide on copies in local memory, as in `verify_drafts`. Of a table of blocks only the
columns are read that the rows of the next step can need, so that its width does not matter. Every
core reads the number of the step; the first writes it back when all have done so. Requests with
penalties add their tokens to the table of counts with atomic copies of one element.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import BLOCK_BYTES, round_up
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.advance_requests_text import (
    CAUSE,
    PENALISED,
    drafts_text,
    tree_text,
    write_addend,
    write_step_back,
    write_step_number,
    write_tile,
)
from ascendfx.codegen.ascendc.kernels.place_regions import (
    Regions,
    lay_out,
    split_places,
    write_places,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    check_local_buffers,
    check_positive,
    kernel_function,
    local_bytes,
    write_buffers,
    write_head,
    write_size,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.draft_tree import depths_of
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    RATE_ONE,
    RATE_SHIFT,
    RETRY_STEPS,
    STATE_COLUMNS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    Finish,
    Option,
    State,
)
from ascendfx.ir.tensor_type import DType

_FAMILY = "advance-requests"


@dataclass(frozen=True, slots=True)
class AdvanceRequestsPlan:
    """How the places are cut.

    Attributes:
        requests: Number of places, read from the device.
        drafts: Draft tokens of a place.
        block: Tokens of a block of the caches.
        table_blocks: Columns of the table of blocks.
        steps: Entries of the ring of emitted tokens.
        counted: Rows of the table of counts.
        vocabulary: Columns of the table of counts.
        drafting: Whether the next step has drafts; else its rows carry placeholders.
        parents: Of the nodes of a tree; empty: the rows are a chain.
        table_columns: Columns of the table that the rows of a place can need.
        step: Places of a core at a time.
        blocks: Vector cores used.
        places: Tables of the buffer that is read and, in part, written back.
        results: Tables of the output buffer.
        buffers: Local memory.
    """

    requests: DeviceSize
    drafts: int
    block: int
    table_blocks: int
    steps: int
    counted: int
    vocabulary: int
    drafting: bool
    parents: tuple[int, ...]
    table_columns: int
    step: int
    blocks: int
    places: Regions
    results: Regions
    buffers: tuple[LocalBuffer, ...]


def plan_advance_requests(
    *,
    requests: DeviceSize,
    drafts: int,
    block: int,
    table_blocks: int,
    steps: int,
    counted: int,
    vocabulary: int,
    drafting: bool,
    parents: tuple[int, ...] = (),
    target: Target,
) -> AdvanceRequestsPlan:
    """Choose the places of a core.

    Raises:
        GraphError: A size is not positive, or the places of a core do not fit.
    """
    rows = drafts + 1
    check_positive(
        _FAMILY,
        requests=requests.capacity,
        rows=rows,
        block=block,
        table_blocks=table_blocks,
        steps=steps,
        counted=counted,
        vocabulary=vocabulary,
    )
    blocks, step = split_places(requests.capacity, target)
    widths = {
        "IDS": rows,
        "POSITIONS": rows,
        "STATE": STATE_COLUMNS,
        "STOPS": STOP_COLUMNS,
        "OPTIONS": OPTION_COLUMNS,
        "ACCEPTED": 1,
        "NEW": 1,
    }
    if parents:
        widths["PATH"] = rows
    drafting = drafting and drafts > 0
    if drafting:
        widths |= {f"DRAFT_{i}": 1 for i in range(drafts)}
    places = lay_out(widths, step)
    results = lay_out({"SLOTS": rows, "EMITTED": rows + 1}, step)
    table_columns = min(table_blocks, (drafts + block - 1) // block + 1)
    pitch = round_up(table_columns * 4, BLOCK_BYTES)
    read = _depth(parents, drafts) if drafting else 0
    buffers = (
        LocalBuffer("stepQueue", BufferKind.THROUGH, round_up((1 + read) * 4, BLOCK_BYTES)),
        LocalBuffer("placeQueue", BufferKind.THROUGH, places.bytes),
        LocalBuffer("tableQueue", BufferKind.INPUT, step * pitch),
        LocalBuffer("resultQueue", BufferKind.OUTPUT, results.bytes),
        LocalBuffer("addendQueue", BufferKind.OUTPUT, BLOCK_BYTES),
    )
    check_local_buffers(_FAMILY, buffers, target)
    return AdvanceRequestsPlan(
        requests,
        drafts,
        block,
        table_blocks,
        steps,
        counted,
        vocabulary,
        drafting,
        parents,
        table_columns,
        step,
        blocks,
        places,
        results,
        buffers,
    )


def emit_advance_requests(plan: AdvanceRequestsPlan, name: str) -> Kernel:
    """Return the kernel.

    Arguments ``token_ids, positions, slots, block_table, state, stop_ids, accepted, new_tokens,
    emitted, step, counts, options[, path][, draft_0, ...], sizes``; those that change are read and
    written.
    """
    requests = plan.requests.capacity
    rows = plan.drafts + 1
    shapes = (
        ("token_ids", Direction.IN_OUT, rows * requests),
        ("positions", Direction.IN_OUT, rows * requests),
        ("slots", Direction.IN_OUT, rows * requests),
        ("block_table", Direction.IN, plan.table_blocks * requests),
        ("state", Direction.IN_OUT, STATE_COLUMNS * requests),
        ("stop_ids", Direction.IN, STOP_COLUMNS * requests),
        ("accepted", Direction.IN, requests),
        ("new_tokens", Direction.IN, requests),
        ("emitted", Direction.IN_OUT, plan.steps * (rows + 1) * requests),
        ("step", Direction.IN_OUT, STEP_COLUMNS),
        ("counts", Direction.IN_OUT, plan.counted * plan.vocabulary),
        ("options", Direction.IN, OPTION_COLUMNS * requests),
        *((("path", Direction.IN, rows * requests),) if plan.parents else ()),
        *(
            (f"draft_{i}", Direction.IN, requests)
            for i in range(plan.drafts if plan.drafting else 0)
        ),
    )
    arguments = (
        *(
            KernelArgument(name, DType.F32 if name == "options" else DType.I32, way, elements)
            for name, way, elements in shapes
        ),
        SIZES_ARGUMENT,
    )
    kind = KernelKind.SYNCED_VECTOR if plan.blocks > 1 else KernelKind.VECTOR
    out = CppWriter()
    tree = f"\n{tree_text(plan.parents)}" if plan.parents else ""
    chosen = f"\n{drafts_text(tree=bool(plan.parents))}" if plan.drafting else ""
    text = f"{CAUSE}\n{PENALISED}{tree}{chosen}"
    write_head(out, _comment(plan, name), _constants(plan), text)
    with kernel_function(out, name, arguments, kind):
        write_size(out, "requests", plan.requests)
        write_places(out)
        write_buffers(out, plan.buffers)
        write_step_number(out, drafting=plan.drafting, synced=plan.blocks > 1)
        write_addend(out)
        with out.block("for (uint32_t start = first; start < last; start += STEP)"):
            drafts = plan.drafts if plan.drafting else 0
            write_tile(out, drafts, plan.places.starts, tree=bool(plan.parents))
        out.line("addendQueue.FreeTensor(addend);")
        write_step_back(out, synced=plan.blocks > 1)
    return Kernel(name, _FAMILY, kind, plan.blocks, arguments, out.text())


def _depth(parents: tuple[int, ...], drafts: int) -> int:
    """Return how many drafts can be accepted together."""
    return max(depths_of(parents), default=drafts)


def _comment(plan: AdvanceRequestsPlan, name: str) -> tuple[str, ...]:
    behind = "draft tokens" if plan.drafting else "placeholders"
    if plan.parents:
        behind += f" below {', '.join(map(str, plan.parents))}"
    return (
        f"{name}: emits the tokens of a step and prepares the next one, in place: places of "
        f"{plan.drafts + 1} rows (the new token, {behind}),",
        f"blocks of {plan.block} tokens, a ring of {plan.steps} steps; place b < sizes"
        f"[{plan.requests.slot}] <= {plan.requests.capacity}, {plan.step} at a time, over "
        f"{plan.blocks} cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: AdvanceRequestsPlan) -> dict[str, int | str]:
    states = (
        State.LENGTH,
        State.GENERATED,
        State.LIMIT,
        State.MINIMUM,
        State.FINISHED,
        State.DRAFTED,
        *((State.DRAFTS, State.RATE, State.ADAPTIVE) if plan.drafting else ()),
        State.PROPOSED,
        State.ACCEPTED,
        State.STEPS,
        State.PLACE,
    )
    penalties = (Option.REPETITION, Option.PRESENCE, Option.FREQUENCY)
    finishes = (Finish.RUNS, Finish.STOP, Finish.LIMIT, Finish.NOT_FINITE)
    adaptive = {
        "DEPTH": _depth(plan.parents, plan.drafts),
        "RATE_ONE": RATE_ONE,
        "RATE_SHIFT": RATE_SHIFT,
        "RETRY_STEPS": RETRY_STEPS,
    }
    return {
        "BLOCKS": plan.blocks,
        "STEP": plan.step,
        "REQUESTS": plan.requests.capacity,
        "ROWS": plan.drafts + 1,
        "BLOCK_TOKENS": plan.block,
        "TABLE_BLOCKS": plan.table_blocks,
        "TABLE_COLUMNS": plan.table_columns,
        "TABLE_PITCH": round_up(plan.table_columns * 4, BLOCK_BYTES) // 4,
        "RING_STEPS": plan.steps,
        "STATE_COLUMNS": STATE_COLUMNS,
        "STOP_COLUMNS": STOP_COLUMNS,
        "OPTION_COLUMNS": OPTION_COLUMNS,
        "VOCABULARY": plan.vocabulary,
        **(adaptive if plan.drafting else {}),
        **{f"OPTION_{each.name}": int(each) for each in penalties},
        **{f"STATE_{each.name}": int(each) for each in states},
        **{f"FINISH_{each.name}": int(each) for each in finishes},
        **plan.places.starts,
        **plan.results.starts,
    }
