"""A draft per place, and what it was drawn from: the sampler of `sample_tokens`, cut to few tokens.

One core takes a place at a time and reads its logits once, as `sample_tokens` does. Of a request
whose drafts are drawn the ``DRAFT_CANDIDATES`` best candidates are kept, in which the prefix that
filters leave ends; they are normalised, sorted by id and drawn from. Other requests take the first
of the largest logits. Only a nucleus of more than ``KEPT`` tokens needs more reads, for their mass:
those of `Border`.

**Rounding** is that of `sample_tokens`; a probability is off by that of a weight and of the sum of
at most ``DRAFT_CANDIDATES`` of them, and the draft is drawn by the same weights, so that what is
kept is what it was drawn from.
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
from ascendfx.codegen.ascendc.kernels.sample_drafts_text import DRAFTING
from ascendfx.codegen.ascendc.kernels.sample_tokens_choice_text import BORDER
from ascendfx.codegen.ascendc.kernels.sampler import (
    check_vocabulary,
    sampler_buffers,
    sampler_constants,
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
    float_literal,
    kernel_function,
    local_bytes,
    through_queue,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.step_state import (
    DRAFT_CANDIDATES,
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    Stream,
    Verification,
)
from ascendfx.ir.tensor_type import DType

_FAMILY = "sample-drafts"


@dataclass(frozen=True, slots=True)
class SampleDraftsPlan:
    """How places are read.

    Attributes:
        requests: Number of places, read from the device.
        drafts: Draft tokens of a place.
        depth: Which of them.
        columns: Row length in elements.
        dtype: Element format of the logits.
        blocks: Vector cores used.
        tables: Local memory of numbers per place.
        buffers: Local memory of the pass.
    """

    requests: DeviceSize
    drafts: int
    depth: int
    columns: int
    dtype: DType
    blocks: int
    tables: tuple[LocalBuffer, ...]
    buffers: tuple[LocalBuffer, ...]


def plan_sample_drafts(
    *, requests: DeviceSize, drafts: int, depth: int, columns: int, dtype: DType, target: Target
) -> SampleDraftsPlan:
    """Choose the buffers.

    Raises:
        GraphError: A size is not positive, the places of one core do not fit, or ids are not
            numbers that f32 holds.
    """
    check_dtype(_FAMILY, dtype)
    check_positive(
        _FAMILY, requests=requests.capacity, columns=columns, drafts_behind=drafts - depth
    )
    check_vocabulary(_FAMILY, columns)
    blocks = blocks_for(requests.capacity, target)
    share = round_up(-(-requests.capacity // blocks) * 4, target.copy_granule)
    request = (STATE_COLUMNS + STOP_COLUMNS + OPTION_COLUMNS) * 4
    tables = (
        LocalBuffer("acceptedQueue", BufferKind.INPUT, share),
        LocalBuffer("requestQueue", BufferKind.INPUT, request),
        LocalBuffer("tokenQueue", BufferKind.OUTPUT, share),
        LocalBuffer("rowQueue", BufferKind.OUTPUT, 2 * DRAFT_CANDIDATES * 4),
    )
    buffers = sampler_buffers(columns, dtype)
    check_local_buffers(_FAMILY, (*tables, *buffers), target)
    return SampleDraftsPlan(requests, drafts, depth, columns, dtype, blocks, tables, buffers)


def emit_sample_drafts(plan: SampleDraftsPlan, name: str) -> Kernel:
    """Return the kernel; arguments as the operation, then ``drafts, sizes``."""
    requests = plan.requests.capacity
    rows = requests * plan.drafts * DRAFT_CANDIDATES
    arguments = (
        KernelArgument("logits", plan.dtype, Direction.IN, requests * plan.columns),
        KernelArgument("options", DType.F32, Direction.IN, requests * OPTION_COLUMNS),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        KernelArgument("stop_ids", DType.I32, Direction.IN, requests * STOP_COLUMNS),
        KernelArgument("accepted", DType.I32, Direction.IN, requests),
        KernelArgument("draft_ids", DType.I32, Direction.IN_OUT, rows),
        KernelArgument("draft_probs", DType.F32, Direction.IN_OUT, rows),
        KernelArgument("drafts", DType.I32, Direction.OUT, requests),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    comment = (
        f"{name}: draft {plan.depth} of {plan.drafts} from each row of {plan.columns} "
        f"{plan.dtype.value}, place b < sizes[{plan.requests.slot}] <= {requests},",
        f"and the up to {DRAFT_CANDIDATES} tokens that it was drawn from; a place per core at a "
        f"time over {plan.blocks} cores; {local_bytes((*plan.tables, *plan.buffers)):,} bytes of "
        "local memory.",
    )
    write_head(out, comment, _constants(plan), f"using Element = {CPP_TYPE[plan.dtype]};")
    write_sampler(out, plan.columns, plan.dtype, (BORDER, DRAFTING))
    with kernel_function(out, name, arguments):
        write_size(out, "requests", plan.requests)
        write_split(out, "requests")
        out.line("TPipe pipe;")
        out.line("Sampler sampler;")
        out.line("sampler.Init(pipe, logitsGm);")
        write_tables(out, plan.tables)
        _write_places(out)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _constants(plan: SampleDraftsPlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "DRAFTS": plan.drafts,
        "DEPTH": plan.depth,
        "DRAFT_CANDIDATES": DRAFT_CANDIDATES,
        **sampler_constants(plan.columns, plan.dtype),
        "STREAM": int(Stream.DRAFT),
        "VERIFICATION": int(Option.VERIFICATION),
        "REJECTION": float_literal(Verification.REJECTION),
        "BLOCK": float_literal(Verification.BLOCK),
    }


def _write_places(out: CppWriter) -> None:
    out.line("const uint32_t count = last - first;")
    with through_queue(out, "acceptedQueue", "acceptedLocal", "int32_t"):
        out.line("CopyIn(acceptedLocal, acceptedGm[first], 1, count * 4, 0, 0);")
    with (
        through_queue(out, "tokenQueue", "tokensLocal", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        out.line("const uint64_t place = first + i;")
        with through_queue(out, "requestQueue", "request", "int32_t"):
            for at, tensor, width in (
                ("request", "state", "STATE_COLUMNS"),
                ("request[STOPS]", "stop_ids", "STOP_COLUMNS"),
                ("request[OPTIONS].ReinterpretCast<float>()", "options", "OPTION_COLUMNS"),
            ):
                out.line(f"CopyIn({at}, {tensor}Gm[place * {width}], 1, {width} * 4, 0, 0);")
        out.line("sampler.rowStart = place * COLUMNS;")
        with through_queue(out, "rowQueue", "row", "int32_t"):
            out.line(
                "const LocalTensor<float> shares = row[DRAFT_CANDIDATES].ReinterpretCast<float>();"
            )
            out.line("const int32_t accepted = acceptedLocal.GetValue(i);")
            out.line("tokensLocal.SetValue(i, sampler.Draft(request, accepted, row, shares));")
        out.line("const uint64_t to = (place * DRAFTS + DEPTH) * DRAFT_CANDIDATES;")
        out.line("CopyOut(draft_idsGm[to], row, 1, DRAFT_CANDIDATES * 4, 0, 0);")
        out.line("CopyOut(draft_probsGm[to], shares, 1, DRAFT_CANDIDATES * 4, 0, 0);")
        out.line("rowQueue.FreeTensor(row);")
        out.line("requestQueue.FreeTensor(request);")
    out.line("CopyOut(draftsGm[first], tokensLocal, 1, count * 4, 0, 0);")
    out.line("tokenQueue.FreeTensor(tokensLocal);")
    out.line("acceptedQueue.FreeTensor(acceptedLocal);")
