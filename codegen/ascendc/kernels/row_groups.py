"""``y[p]``: the group of row ``p`` where groups of rows follow each other."""

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
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    blocks_for,
    check_local_buffers,
    check_positive,
    kernel_function,
    local_bytes,
    through_queue,
    write_buffers,
    write_head,
    write_size,
    write_split,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType

_FAMILY = "row-groups"
_STEP = 2_048
"""Rows of a core at a time at most."""

_WALK = """\
for (uint32_t i = 0; i < count; ++i) {
    while (group + 1 < GROUPS && bounds.GetValue(group) <= static_cast<int32_t>(row + i)) {
        group += 1;
    }
    results.SetValue(i, static_cast<int32_t>(group));
}
"""


@dataclass(frozen=True, slots=True)
class RowGroupsPlan:
    """How the rows are cut.

    Attributes:
        rows: Number of rows, read from the device.
        groups: Number of groups.
        step: Rows of a core at a time.
        blocks: Vector cores used.
        buffers: Local memory.
    """

    rows: DeviceSize
    groups: int
    step: int
    blocks: int
    buffers: tuple[LocalBuffer, ...]


def plan_row_groups(*, rows: DeviceSize, groups: int, target: Target) -> RowGroupsPlan:
    """Choose the rows of a core.

    Raises:
        GraphError: A size is not positive, or the ends do not fit local memory.
    """
    check_positive(_FAMILY, rows=rows.capacity, groups=groups)
    blocks = blocks_for(rows.capacity, target)
    step = min(_STEP, -(-rows.capacity // blocks))
    buffers = (
        LocalBuffer("endQueue", BufferKind.INPUT, round_up(groups * 4, BLOCK_BYTES)),
        LocalBuffer("resultQueue", BufferKind.OUTPUT, round_up(step * 4, BLOCK_BYTES)),
    )
    check_local_buffers(_FAMILY, buffers, target, hint="use fewer groups")
    return RowGroupsPlan(rows, groups, step, blocks, buffers)


def emit_row_groups(plan: RowGroupsPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``ends, y, sizes``.

    ``ends`` holds for every group the number of rows of all groups up to it; rows behind the last
    end count as those of the last group. Every core walks over all ends: few scalars, no barrier.
    """
    arguments = (
        KernelArgument("ends", DType.I32, Direction.IN, plan.groups),
        KernelArgument("y", DType.I32, Direction.OUT, plan.rows.capacity),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    comment = (
        f"{name}: y[row] = number of ends that are not beyond row, at most {plan.groups - 1};",
        f"row < sizes[{plan.rows.slot}] <= {plan.rows.capacity}, {plan.step} at a time over "
        f"{plan.blocks} cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )
    write_head(out, comment, {"BLOCKS": plan.blocks, "GROUPS": plan.groups, "STEP": plan.step})
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_split(out, "rows")
        write_buffers(out, plan.buffers)
        with through_queue(out, "endQueue", "bounds", "int32_t"):
            out.line("CopyIn(bounds, endsGm, 1, GROUPS * 4, 0, 0);")
        out.line("uint32_t group = 0;")
        with out.block("for (uint32_t row = first; row < last; row += STEP)"):
            out.line("const uint32_t count = row + STEP < last ? STEP : last - row;")
            out.line("LocalTensor<int32_t> results = resultQueue.AllocTensor<int32_t>();")
            out.lines(_WALK.splitlines())
            out.line("resultQueue.EnQue(results);")
            out.line("results = resultQueue.DeQue<int32_t>();")
            out.line("CopyOut(yGm[row], results, 1, count * 4, 0, 0);")
            out.line("resultQueue.FreeTensor(results);")
        out.line("endQueue.FreeTensor(bounds);")
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())
