"""``accepted[b]``: the leading draft tokens of place ``b`` that were sampled as well.

Scalars decide on copies in local memory: a place has a handful of numbers and no two agree on where
they stop, so that vectors would compare more than scalars read. Packed rows of neighbouring places
stand together, too, so that they are as few copies.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.place_regions import (
    OWN_ROWS,
    Regions,
    lay_out,
    split_places,
    write_packed_range,
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
    through_queue,
    write_buffers,
    write_head,
    write_size,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.step_state import STATE_COLUMNS, State
from ascendfx.ir.tensor_type import DType

_FAMILY = "verify-drafts"


@dataclass(frozen=True, slots=True)
class VerifyDraftsPlan:
    """How the places are cut.

    Attributes:
        requests: Number of places, read from the device.
        drafts: Draft tokens of a place.
        rows: Number of packed rows, read from the device; None: places have all their rows.
        step: Places of a core at a time.
        blocks: Vector cores used.
        inputs: Tables of the input buffer.
        results: Tables of the output buffer.
        buffers: Local memory.
    """

    requests: DeviceSize
    drafts: int
    rows: DeviceSize | None
    step: int
    blocks: int
    inputs: Regions
    results: Regions
    buffers: tuple[LocalBuffer, ...]


def plan_verify_drafts(
    *, requests: DeviceSize, drafts: int, target: Target, rows: DeviceSize | None = None
) -> VerifyDraftsPlan:
    """Choose the places of a core.

    Raises:
        GraphError: A size is not positive, or the places of a core do not fit.
    """
    check_positive(_FAMILY, requests=requests.capacity, rows=drafts + 1)
    blocks, step = split_places(requests.capacity, target)
    widths = {"IDS": drafts + 1, "SAMPLED": drafts + 1, "STATE": STATE_COLUMNS}
    inputs = lay_out(widths | ({"ROW_START": 1} if rows else {}), step)
    results = lay_out({"ACCEPTED": 1, "LAST_ROWS": 1, "NEW_TOKENS": 1}, step)
    buffers = (
        LocalBuffer("placeQueue", BufferKind.INPUT, inputs.bytes),
        LocalBuffer("resultQueue", BufferKind.OUTPUT, results.bytes),
    )
    check_local_buffers(_FAMILY, buffers, target)
    return VerifyDraftsPlan(requests, drafts, rows, step, blocks, inputs, results, buffers)


def emit_verify_drafts(plan: VerifyDraftsPlan, name: str) -> Kernel:
    """Return the kernel.

    Arguments ``token_ids, sampled, state[, row_start]``, the results, ``sizes``.
    """
    requests = plan.requests.capacity
    rows = requests * (plan.drafts + 1)
    arguments = (
        KernelArgument("token_ids", DType.I32, Direction.IN, rows),
        KernelArgument("sampled", DType.I32, Direction.IN, rows),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        *((KernelArgument("row_start", DType.I32, Direction.IN, requests),) if plan.rows else ()),
        KernelArgument("accepted", DType.I32, Direction.OUT, requests),
        KernelArgument("last_rows", DType.I32, Direction.OUT, requests),
        KernelArgument("new_tokens", DType.I32, Direction.OUT, requests),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    behind = "behind row_start[b]" if plan.rows else f"b * {plan.drafts + 1} + 1 on"
    comment = (
        f"{name}: how many of the drafts of place b, rows {behind}, equal the tokens sampled "
        "before them,",
        f"b < sizes[{plan.requests.slot}] <= {requests}, {plan.step} at a time, over {plan.blocks} "
        f"cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )
    constants: dict[str, int | str] = {
        "BLOCKS": plan.blocks,
        "STEP": plan.step,
        "ROWS": plan.drafts + 1,
        "STATE_COLUMNS": STATE_COLUMNS,
        "DRAFTED": State.DRAFTED,
        **plan.inputs.starts,
        **plan.results.starts,
    }
    write_head(out, comment, constants)
    with kernel_function(out, name, arguments):
        write_size(out, "requests", plan.requests)
        if plan.rows:
            write_size(out, "rows", plan.rows)
        write_places(out)
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t start = first; start < last; start += STEP)"):
            _write_step(out, packed=plan.rows is not None)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _write_step(out: CppWriter, *, packed: bool) -> None:
    out.line("const uint32_t count = start + STEP < last ? STEP : last - start;")
    begin, length = ("begin", "(end - begin)") if packed else ("start * ROWS", "count * ROWS")
    if packed:
        write_packed_range(out)
    with through_queue(out, "placeQueue", "places", "int32_t"):
        out.line(f"CopyIn(places[IDS], token_idsGm[{begin}], 1, {length} * 4, 0, 0);")
        out.line(f"CopyIn(places[SAMPLED], sampledGm[{begin}], 1, {length} * 4, 0, 0);")
        out.line(
            "CopyIn(places[STATE], stateGm[start * STATE_COLUMNS], 1, count * STATE_COLUMNS * 4, "
            "0, 0);"
        )
        if packed:
            out.line("CopyIn(places[ROW_START], row_startGm[start], 1, count * 4, 0, 0);")
    with (
        through_queue(out, "resultQueue", "results", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        out.lines(
            (
                "const int32_t drafted = places.GetValue(STATE + i * STATE_COLUMNS + DRAFTED);",
                "uint32_t accepted = 0;",
            )
        )
        own, most = ("own", "rowsOf") if packed else ("i * ROWS", "ROWS")
        if packed:
            out.lines(OWN_ROWS.splitlines())
        with out.block(
            f"while (accepted + 1 < {most} && static_cast<int32_t>(accepted) < drafted && "
            f"places.GetValue(IDS + {own} + accepted + 1) == "
            f"places.GetValue(SAMPLED + {own} + accepted))"
        ):
            out.line("accepted += 1;")
        out.lines(
            (
                f"const uint32_t row = {own} + accepted;",
                "results.SetValue(ACCEPTED + i, static_cast<int32_t>(accepted));",
                f"results.SetValue(LAST_ROWS + i, static_cast<int32_t>({begin} + row));",
                "results.SetValue(NEW_TOKENS + i, places.GetValue(SAMPLED + row));",
            )
        )
    for result in ("accepted", "last_rows", "new_tokens"):
        out.line(f"CopyOut({result}Gm[start], results[{result.upper()}], 1, count * 4, 0, 0);")
    out.line("resultQueue.FreeTensor(results);")
    out.line("placeQueue.FreeTensor(places);")
