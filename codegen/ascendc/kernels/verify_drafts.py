"""``accepted[b]``: the leading draft tokens of place ``b`` that were sampled as well.

Scalars decide on copies in local memory: a place has a handful of numbers and no two agree on where
they stop, so that vectors would compare more than scalars read.
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
        step: Places of a core at a time.
        blocks: Vector cores used.
        inputs: Tables of the input buffer.
        results: Tables of the output buffer.
        buffers: Local memory.
    """

    requests: DeviceSize
    drafts: int
    step: int
    blocks: int
    inputs: Regions
    results: Regions
    buffers: tuple[LocalBuffer, ...]


def plan_verify_drafts(*, requests: DeviceSize, drafts: int, target: Target) -> VerifyDraftsPlan:
    """Choose the places of a core.

    Raises:
        GraphError: A size is not positive, or the places of a core do not fit.
    """
    check_positive(_FAMILY, requests=requests.capacity, rows=drafts + 1)
    blocks, step = split_places(requests.capacity, target)
    inputs = lay_out({"IDS": drafts + 1, "SAMPLED": drafts + 1, "STATE": STATE_COLUMNS}, step)
    results = lay_out({"ACCEPTED": 1, "LAST_ROWS": 1, "NEW_TOKENS": 1}, step)
    buffers = (
        LocalBuffer("placeQueue", BufferKind.INPUT, inputs.bytes),
        LocalBuffer("resultQueue", BufferKind.OUTPUT, results.bytes),
    )
    check_local_buffers(_FAMILY, buffers, target)
    return VerifyDraftsPlan(requests, drafts, step, blocks, inputs, results, buffers)


def emit_verify_drafts(plan: VerifyDraftsPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``token_ids, sampled, state``, the results, ``sizes``."""
    requests = plan.requests.capacity
    rows = requests * (plan.drafts + 1)
    arguments = (
        KernelArgument("token_ids", DType.I32, Direction.IN, rows),
        KernelArgument("sampled", DType.I32, Direction.IN, rows),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        KernelArgument("accepted", DType.I32, Direction.OUT, requests),
        KernelArgument("last_rows", DType.I32, Direction.OUT, requests),
        KernelArgument("new_tokens", DType.I32, Direction.OUT, requests),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    comment = (
        f"{name}: how many of the drafts of place b, rows b * {plan.drafts + 1} + 1 on, equal the "
        "tokens sampled before them,",
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
        write_places(out)
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t start = first; start < last; start += STEP)"):
            _write_step(out)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _write_step(out: CppWriter) -> None:
    out.line("const uint32_t count = start + STEP < last ? STEP : last - start;")
    with through_queue(out, "placeQueue", "places", "int32_t"):
        out.line("CopyIn(places[IDS], token_idsGm[start * ROWS], 1, count * ROWS * 4, 0, 0);")
        out.line("CopyIn(places[SAMPLED], sampledGm[start * ROWS], 1, count * ROWS * 4, 0, 0);")
        out.line(
            "CopyIn(places[STATE], stateGm[start * STATE_COLUMNS], 1, count * STATE_COLUMNS * 4, "
            "0, 0);"
        )
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
        with out.block(
            "while (accepted + 1 < ROWS && static_cast<int32_t>(accepted) < drafted && "
            "places.GetValue(IDS + i * ROWS + accepted + 1) == "
            "places.GetValue(SAMPLED + i * ROWS + accepted))"
        ):
            out.line("accepted += 1;")
        out.lines(
            (
                "const uint32_t row = i * ROWS + accepted;",
                "results.SetValue(ACCEPTED + i, static_cast<int32_t>(accepted));",
                "results.SetValue(LAST_ROWS + i, static_cast<int32_t>(start * ROWS + row));",
                "results.SetValue(NEW_TOKENS + i, places.GetValue(SAMPLED + row));",
            )
        )
    for result in ("accepted", "last_rows", "new_tokens"):
        out.line(f"CopyOut({result}Gm[start], results[{result.upper()}], 1, count * 4, 0, 0);")
    out.line("resultQueue.FreeTensor(results);")
    out.line("placeQueue.FreeTensor(places);")
