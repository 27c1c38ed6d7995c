"""``path[b]``: the draft tokens of place ``b`` that were sampled as well, from the root of a tree.

See `VerifyTree`. Scalars decide on copies in local memory, as in `verify_drafts`. Children stand
behind their parents, so one pass over the nodes finds the path. The tree is a constant of four bits
for each node.
"""

from collections.abc import Sequence
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

_FAMILY = "verify-tree"
_RESULTS = ("accepted", "last_rows", "new_tokens")
"""Results with an element per place."""


@dataclass(frozen=True, slots=True)
class VerifyTreePlan:
    """How the places are cut.

    Attributes:
        requests: Number of places, read from the device.
        parents: Of each node.
        step: Places of a core at a time.
        blocks: Vector cores used.
        inputs: Tables of the input buffer.
        results: Tables of the output buffer.
        buffers: Local memory.
    """

    requests: DeviceSize
    parents: tuple[int, ...]
    step: int
    blocks: int
    inputs: Regions
    results: Regions
    buffers: tuple[LocalBuffer, ...]


def plan_verify_tree(
    *, requests: DeviceSize, parents: Sequence[int], target: Target
) -> VerifyTreePlan:
    """Choose the places of a core.

    Raises:
        GraphError: A size is not positive, or the places of a core do not fit.
    """
    nodes = len(parents)
    check_positive(_FAMILY, requests=requests.capacity, nodes=nodes)
    blocks, step = split_places(requests.capacity, target)
    inputs = lay_out({"IDS": nodes, "SAMPLED": nodes, "STATE": STATE_COLUMNS}, step)
    results = lay_out({**{name.upper(): 1 for name in _RESULTS}, "PATH": nodes}, step)
    buffers = (
        LocalBuffer("placeQueue", BufferKind.INPUT, inputs.bytes),
        LocalBuffer("resultQueue", BufferKind.OUTPUT, results.bytes),
    )
    check_local_buffers(_FAMILY, buffers, target)
    return VerifyTreePlan(requests, tuple(parents), step, blocks, inputs, results, buffers)


def emit_verify_tree(plan: VerifyTreePlan, name: str) -> Kernel:
    """Return the kernel; arguments ``token_ids, sampled, state``, the results, ``sizes``."""
    requests, nodes = plan.requests.capacity, len(plan.parents)
    shapes = (
        ("token_ids", Direction.IN, nodes),
        ("sampled", Direction.IN, nodes),
        ("state", Direction.IN, STATE_COLUMNS),
        *((result, Direction.OUT, 1) for result in _RESULTS),
        ("path", Direction.OUT, nodes),
    )
    arguments = (
        *(KernelArgument(n, DType.I32, way, width * requests) for n, way, width in shapes),
        SIZES_ARGUMENT,
    )
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), _tree_text(plan.parents))
    with kernel_function(out, name, arguments):
        write_size(out, "requests", plan.requests)
        write_places(out)
        write_buffers(out, plan.buffers)
        with out.block("for (uint32_t start = first; start < last; start += STEP)"):
            _write_step(out)
    return Kernel(name, _FAMILY, KernelKind.VECTOR, plan.blocks, arguments, out.text())


def _comment(plan: VerifyTreePlan, name: str) -> tuple[str, ...]:
    return (
        f"{name}: the path of place b, nodes {', '.join(map(str, range(len(plan.parents))))} below "
        f"{', '.join(map(str, plan.parents))}, that equals the tokens sampled before it,",
        f"b < sizes[{plan.requests.slot}] <= {plan.requests.capacity}, {plan.step} at a time over "
        f"{plan.blocks} cores; {local_bytes(plan.buffers):,} bytes of local memory.",
    )


def _constants(plan: VerifyTreePlan) -> dict[str, int | str]:
    return {
        "BLOCKS": plan.blocks,
        "STEP": plan.step,
        "NODES": len(plan.parents),
        "STATE_COLUMNS": STATE_COLUMNS,
        "STATE_DRAFTED": State.DRAFTED,
        **plan.inputs.starts,
        **plan.results.starts,
    }


def _tree_text(parents: Sequence[int]) -> str:
    packed = sum(max(parent, 0) << 4 * node for node, parent in enumerate(parents))
    return f"""\
// Four bits for the parent of each node.
constexpr uint64_t PARENTS = 0x{packed:x};

__aicore__ inline uint32_t ParentOf(uint32_t node) {{
    return static_cast<uint32_t>(PARENTS >> (4 * node)) % 16;
}}
"""


_WALK = """\
const int32_t drafted = places.GetValue(STATE + i * STATE_COLUMNS + STATE_DRAFTED);
uint32_t node = 0;
uint32_t accepted = 0;
results.SetValue(PATH + i * NODES, 0);
for (uint32_t child = 1; child < NODES; ++child) {
    results.SetValue(PATH + i * NODES + child, -1);
    if (static_cast<int32_t>(child) <= drafted && ParentOf(child) == node &&
        places.GetValue(IDS + i * NODES + child) == places.GetValue(SAMPLED + i * NODES + node)) {
        node = child;
        accepted += 1;
        results.SetValue(PATH + i * NODES + accepted, static_cast<int32_t>(child));
    }
}
results.SetValue(ACCEPTED + i, static_cast<int32_t>(accepted));
results.SetValue(LAST_ROWS + i, static_cast<int32_t>((start + i) * NODES + node));
results.SetValue(NEW_TOKENS + i, places.GetValue(SAMPLED + i * NODES + node));
"""


def _write_step(out: CppWriter) -> None:
    out.line("const uint32_t count = start + STEP < last ? STEP : last - start;")
    with through_queue(out, "placeQueue", "places", "int32_t"):
        for region, tensor, width in (
            ("IDS", "token_ids", "NODES"),
            ("SAMPLED", "sampled", "NODES"),
            ("STATE", "state", "STATE_COLUMNS"),
        ):
            out.line(
                f"CopyIn(places[{region}], {tensor}Gm[start * {width}], 1, count * {width} * 4, "
                "0, 0);"
            )
    with (
        through_queue(out, "resultQueue", "results", "int32_t"),
        out.block("for (uint32_t i = 0; i < count; ++i)"),
    ):
        out.lines(_WALK.splitlines())
    for result in _RESULTS:
        out.line(f"CopyOut({result}Gm[start], results[{result.upper()}], 1, count * 4, 0, 0);")
    out.line("CopyOut(pathGm[start * NODES], results[PATH], 1, count * NODES * 4, 0, 0);")
    out.line("resultQueue.FreeTensor(results);")
    out.line("placeQueue.FreeTensor(places);")
