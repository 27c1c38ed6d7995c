"""Order the (row, expert) pairs of one step by expert: the index side of a mixture of experts.

Pair ``p = row * top_k + j`` goes to expert ``ids[row, j]``. The order is stable:

* ``source_row[q]`` is the row of the q-th pair in expert order,
* ``place[p]`` is where pair ``p`` went,
* ``group_ends[e]`` is the number of pairs with an expert up to and including ``e``.

One core sorts records (key, slot). The slots are one marker per expert, which sorts behind all
pairs of its expert, and the pairs. Every key is different, so nothing depends on how the sorter
treats ties. A second sort by slot inverts the permutation; the position of a slot, less the number
of markers before it, is the answer for pairs and markers alike. More pairs than fit are ordered
tile by tile, twice: once to count them, once to place every tile behind the earlier ones.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import (
    BLOCK_FLOATS,
    MAX_REPEATS,
    MAX_SORTED_LIST,
    SORT_WIDTH,
    round_up,
)
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.dispatch_experts_text import (
    EXPERT_ARRAYS,
    ORDER_SLOTS,
    write_tiles,
    write_whole,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import (
    SIZES_ARGUMENT,
    BufferKind,
    LocalBuffer,
    check_local_buffers,
    check_positive,
    float_literal,
    kernel_function,
    local_bytes,
    write_buffers,
    write_head,
    write_size,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_EXACT_INTEGERS = 1 << 24
"""Integers up to here are exact in f32."""

_TILE_PAIRS = 2_048
"""Pairs of a tile when not all fit."""


@dataclass(frozen=True, slots=True)
class DispatchExpertsPlan:
    """Sizes of the sort.

    Attributes:
        rows: Number of token rows, read from the device.
        top_k: Pairs per row.
        experts: Number of experts.
        tile_rows: Rows ordered at a time; the capacity if all fit.
        first_pair: Slot of pair 0: the markers, rounded up to whole sorter repeats.
        key_step: Distance of the keys of neighbouring experts, more than the pairs of a tile.
        slots: Most slots a tile can have.
        buffers: Local memory.
    """

    rows: DeviceSize
    top_k: int
    experts: int
    tile_rows: int
    first_pair: int
    key_step: int
    slots: int
    buffers: tuple[LocalBuffer, ...]

    @property
    def is_tiled(self) -> bool:
        """Whether the rows are taken in several tiles."""
        return self.tile_rows < self.rows.capacity


def plan_dispatch_experts(
    *, rows: DeviceSize, top_k: int, experts: int, target: Target
) -> DispatchExpertsPlan:
    """Lay the slots out; pairs that do not fit at once are ordered tile by tile.

    Raises:
        GraphError: A size is not positive, or the experts alone fill the local memory.
    """
    check_positive("dispatch-experts", top_k=top_k, experts=experts, rows=rows.capacity)
    whole = _plan(rows, top_k, experts, rows.capacity, target)
    if _why_not(whole, target) is None:
        return whole
    tiled = _plan(rows, top_k, experts, max(1, _TILE_PAIRS // top_k), target)
    check_local_buffers("dispatch-experts", tiled.buffers, target)
    reason = _why_not(tiled, target)
    if reason is not None:
        raise GraphError(
            code="too-many-pairs",
            reason=f"dispatch-experts: {reason}",
            hint="compile with a smaller `prefill_chunk` or `max_batch`",
        )
    return tiled


def _plan(
    rows: DeviceSize, top_k: int, experts: int, tile_rows: int, target: Target
) -> DispatchExpertsPlan:
    pairs = tile_rows * top_k
    first_pair = round_up(experts, SORT_WIDTH)
    slots = round_up(first_pair + pairs, 2 * SORT_WIDTH)

    def integers(name: str, count: int, kind: BufferKind = BufferKind.SCRATCH) -> LocalBuffer:
        return LocalBuffer(name, kind, round_up(count * 4, target.copy_granule))

    buffers = [
        LocalBuffer("recordABuffer", BufferKind.SCRATCH, slots * 8),
        LocalBuffer("recordBBuffer", BufferKind.SCRATCH, slots * 8),
        integers("idQueue", pairs, BufferKind.INPUT),
        integers("orderBuffer", slots),
        LocalBuffer("bitBuffer", BufferKind.SCRATCH, round_up(slots // 8, target.copy_granule)),
        integers("rowQueue", pairs, BufferKind.OUTPUT),
        integers("placeQueue", pairs, BufferKind.OUTPUT),
        integers("endQueue", experts, BufferKind.OUTPUT),
    ]
    if tile_rows < rows.capacity:
        buffers += [
            integers("arrayBuffer", EXPERT_ARRAYS * round_up(experts + BLOCK_FLOATS, BLOCK_FLOATS)),
            integers("nextBuffer", pairs),
            integers("rowBuffer", pairs),
        ]
    return DispatchExpertsPlan(
        rows, top_k, experts, tile_rows, first_pair, pairs + 1, slots, tuple(buffers)
    )


def _why_not(plan: DispatchExpertsPlan, target: Target) -> str | None:
    """Return why a tile cannot be ordered at once, or None."""
    needed = local_bytes(plan.buffers)
    if needed > target.unified_buffer:
        return f"{needed:,} bytes of unified buffer, {target.name} has {target.unified_buffer:,}"
    largest_key = plan.experts * plan.key_step
    if largest_key > _EXACT_INTEGERS:
        return f"keys up to {largest_key:,}, f32 counts exactly to {_EXACT_INTEGERS:,}"
    longest = min(MAX_REPEATS * SORT_WIDTH, 4 * _longest_list(plan.slots))
    if plan.slots > longest:
        return f"{plan.slots} records, the sorter takes {longest}"
    return None


def _longest_list(slots: int) -> int:
    """Return the widest list of the merge levels that MrgSort takes for ``slots`` records."""
    width = SORT_WIDTH
    while 4 * width < slots and 4 * width <= MAX_SORTED_LIST:
        width *= 4
    return width


def emit_dispatch_experts(plan: DispatchExpertsPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``ids, source_row, place, group_ends, sizes``."""
    pairs = plan.rows.capacity * plan.top_k
    arguments = (
        KernelArgument("ids", DType.I32, Direction.IN, pairs),
        KernelArgument("source_row", DType.I32, Direction.OUT, pairs),
        KernelArgument("place", DType.I32, Direction.OUT, pairs),
        KernelArgument("group_ends", DType.I32, Direction.OUT, plan.experts),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), ORDER_SLOTS)
    with kernel_function(out, name, arguments):
        write_size(out, "rows", plan.rows)
        write_buffers(out, plan.buffers)
        out.line("LocalTensor<float> to = recordABuffer.Get<float>();")
        out.line("LocalTensor<float> from = recordBBuffer.Get<float>();")
        out.line("LocalTensor<float> order = orderBuffer.Get<float>();")
        out.line("LocalTensor<uint8_t> isPair = bitBuffer.Get<uint8_t>();")
        if plan.is_tiled:
            write_tiles(out)
        else:
            write_whole(out)
    return Kernel(name, "dispatch-experts", KernelKind.VECTOR, 1, arguments, out.text())


def _comment(plan: DispatchExpertsPlan, name: str) -> list[str]:
    lines = [
        f"{name}: pairs p = row * {plan.top_k} + j by expert ids[p], stable; row < sizes"
        f"[{plan.rows.slot}] <= {plan.rows.capacity}, {plan.experts} experts.",
        f"Slots: 0 .. {plan.experts - 1} mark the end of an expert, {plan.first_pair} + p are "
        "pairs. Sort slots by (expert, slot),",
        "then sort positions by slot: that inverts the order. The place is the position less the "
        "markers before it.",
    ]
    if plan.is_tiled:
        lines.append(
            f"Tiles of {plan.tile_rows} rows: the first pass counts, the second places each tile "
            "behind the earlier ones."
        )
    lines.append(f"One core, {local_bytes(plan.buffers):,} bytes of local memory.")
    return lines


def _constants(plan: DispatchExpertsPlan) -> dict[str, int | str]:
    tile: dict[str, int | str] = {"TILE_ROWS": plan.tile_rows} if plan.is_tiled else {}
    return {
        "TOP_K": plan.top_k,
        "EXPERTS": plan.experts,
        **tile,
        "FIRST_PAIR": plan.first_pair,
        "SLOTS": plan.slots,
        "KEY_STEP": float_literal(plan.key_step),
        "ROWS_PER_PAIR": float_literal(1.0 / plan.top_k),
        "LAST": float_literal(float("-inf")),
    }
