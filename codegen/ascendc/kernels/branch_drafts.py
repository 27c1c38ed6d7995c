"""Several drafts per place: the best candidates of the pass of `sample_tokens`, the best first.

One core takes a place at a time and reads its logits once. See `BranchDrafts`; what is chosen is
exact, because logits are only compared.
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
    kernel_function,
    local_bytes,
    through_queue,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.step_state import STATE_COLUMNS, STOP_COLUMNS
from ascendfx.ir.tensor_type import DType

_FAMILY = "branch-drafts"

_BRANCHING = """\
// The drafts of a place to `drafts`, `pitch` elements apart; all 0 if its logits are no numbers to
// choose by, the first again where there are too few.
__aicore__ inline void Branch(const LocalTensor<int32_t>& request, int32_t accepted,
                              const LocalTensor<int32_t>& drafts) {
    stops = request[STOPS];
    const int32_t behind = accepted + 1 + static_cast<int32_t>(DEPTH);
    bans = request.GetValue(GENERATED) + behind < request.GetValue(MINIMUM) ? STOP_COLUMNS : 0;
    inverse = 1.0f;
    rank = BRANCHES;
    isFiltered = true;
    Scan();
    if (!IsChoosable()) {
        for (uint32_t i = 0; i < BRANCHES; ++i) {
            drafts.SetValue(i * PITCH, 0);
        }
        return;
    }
    Unzip(newIds, kept.ReinterpretCast<int32_t>(), 2);
    for (uint32_t i = 0; i < BRANCHES; ++i) {
        drafts.SetValue(i * PITCH, newIds.GetValue(i < seen ? i : 0));
    }
}
"""


@dataclass(frozen=True, slots=True)
class BranchDraftsPlan:
    """How places are read.

    Attributes:
        requests: Number of places, read from the device.
        depth: Which draft layer.
        branches: Drafts of a place.
        columns: Row length in elements.
        dtype: Element format of the logits.
        blocks: Vector cores used.
        share: Elements between the drafts of a core.
        tables: Queues outside the sampler.
        buffers: Of the sampler.
    """

    requests: DeviceSize
    depth: int
    branches: int
    columns: int
    dtype: DType
    blocks: int
    share: int
    tables: tuple[LocalBuffer, ...]
    buffers: tuple[LocalBuffer, ...]


def plan_branch_drafts(
    *,
    requests: DeviceSize,
    depth: int,
    branches: int,
    columns: int,
    dtype: DType,
    target: Target,
) -> BranchDraftsPlan:
    """Choose the places of a core.

    Raises:
        GraphError: A size is not positive, the vocabulary is too large, or the drafts of a core do
            not fit.
    """
    check_dtype(_FAMILY, dtype)
    check_positive(_FAMILY, requests=requests.capacity, branches=branches, columns=columns)
    check_vocabulary(_FAMILY, columns)
    blocks = blocks_for(requests.capacity, target)
    share = round_up(-(-requests.capacity // blocks) * 4, target.copy_granule)
    tables = (
        LocalBuffer("acceptedQueue", BufferKind.INPUT, share),
        LocalBuffer("requestQueue", BufferKind.INPUT, (STATE_COLUMNS + STOP_COLUMNS) * 4),
        LocalBuffer("tokenQueue", BufferKind.OUTPUT, branches * share),
    )
    buffers = sampler_buffers(columns, dtype)
    check_local_buffers(_FAMILY, (*tables, *buffers), target)
    return BranchDraftsPlan(
        requests, depth, branches, columns, dtype, blocks, share // 4, tables, buffers
    )


def emit_branch_drafts(plan: BranchDraftsPlan, name: str) -> Kernel:
    """Return the kernel; arguments as the operation, then ``draft_0, ..., sizes``."""
    requests = plan.requests.capacity
    arguments = (
        KernelArgument("logits", plan.dtype, Direction.IN, requests * plan.columns),
        KernelArgument("state", DType.I32, Direction.IN, requests * STATE_COLUMNS),
        KernelArgument("stop_ids", DType.I32, Direction.IN, requests * STOP_COLUMNS),
        KernelArgument("accepted", DType.I32, Direction.IN, requests),
        *(
            KernelArgument(f"draft_{i}", DType.I32, Direction.OUT, requests)
            for i in range(plan.branches)
        ),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    comment = (
        f"{name}: the best {plan.branches} at depth {plan.depth} of each row of {plan.columns} "
        f"{plan.dtype.value}, place b < sizes[{plan.requests.slot}] <= {requests};",
        f"a place per core at a time over {plan.blocks} cores; "
        f"{local_bytes((*plan.tables, *plan.buffers)):,} bytes of local memory.",
    )
    constants: dict[str, int | str] = {
        "BLOCKS": plan.blocks,
        "DEPTH": plan.depth,
        "BRANCHES": plan.branches,
        "PITCH": plan.share,
        **sampler_constants(plan.columns, plan.dtype),
    }
    write_head(out, comment, constants, f"using Element = {CPP_TYPE[plan.dtype]};")
    write_sampler(out, plan.columns, plan.dtype, (_BRANCHING,))
    with kernel_function(out, name, arguments):
        write_size(out, "requests", plan.requests)
        write_split(out, "requests")
        out.line("TPipe pipe;")
        out.line("Sampler sampler;")
        out.line("sampler.Init(pipe, logitsGm);")
        write_tables(out, plan.tables)
        _write_places(out, plan.branches)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _write_places(out: CppWriter, branches: int) -> None:
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
            ):
                out.line(f"CopyIn({at}, {tensor}Gm[place * {width}], 1, {width} * 4, 0, 0);")
        out.line("sampler.rowStart = place * COLUMNS;")
        out.line("const int32_t accepted = acceptedLocal.GetValue(i);")
        out.line("sampler.Branch(request, accepted, tokensLocal[i]);")
        out.line("requestQueue.FreeTensor(request);")
    for i in range(branches):
        out.line(f"CopyOut(draft_{i}Gm[first], tokensLocal[{i} * PITCH], 1, count * 4, 0, 0);")
    out.line("tokenQueue.FreeTensor(tokensLocal);")
    out.line("acceptedQueue.FreeTensor(acceptedLocal);")
