"""From a serving program to a static launch plan: the order of the passes."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace

from ascendfx.codegen.ascendc.kernel import SIZES_ELEMENTS, Kernel
from ascendfx.codegen.ascendc.launch_plan import (
    Argument,
    Buffer,
    Capacities,
    Launch,
    LaunchPlan,
    Place,
)
from ascendfx.codegen.ascendc.lowering.check_caches import check_caches, overwritten_inputs
from ascendfx.codegen.ascendc.lowering.graph_context import find_constants
from ascendfx.codegen.ascendc.lowering.instantiate import Instantiated, LoweredProgram, instantiate
from ascendfx.codegen.ascendc.lowering.name_kernels import name_kernels
from ascendfx.codegen.ascendc.lowering.plan_memory import find_lifetimes, plan_memory
from ascendfx.codegen.ascendc.lowering.select_kernels import select_kernels
from ascendfx.codegen.ascendc.lowering.step import KernelStep, LoweredGraph
from ascendfx.codegen.ascendc.lowering.tabulate_positions import TabulatePositions
from ascendfx.codegen.ascendc.lowering.view import CapacityOf, capacities, storage_dtype
from ascendfx.codegen.ascendc.target import Target
from ascendfx.codegen.ascendc.weight_spec import WeightSpec
from ascendfx.codegen.ascendc.work import KernelWork
from ascendfx.ir.cache_block import blocks_for
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import RouteTopk
from ascendfx.ir.packed_rows import PACKED_ROWS
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import CACHE_PREFIX, SIZES
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.fold_weights import FoldWeights

RESULTS = ("next_tokens", "logits")
"""Results of a step that prepares nothing."""


def lower_program(
    program: Program,
    *,
    target: Target,
    rows: int,
    requests: int,
    context: int,
    blocks: int,
    name: str,
    steps: int = 1,
    drafts: int = 0,
    branches: tuple[int, ...] = (),
    places: int | None = None,
    results: Sequence[str] = RESULTS,
) -> tuple[LaunchPlan, tuple[WeightSpec, ...]]:
    """Return the launches of one kind of step, and the weights they read.

    Args:
        program: Serving form: inputs and outputs in the order of the contract.
        target: The chip.
        rows: Most token rows of a step.
        requests: Most requests of a step.
        context: Most tokens of a request, those of the step included.
        blocks: Blocks of every cache.
        name: Of the plan.
        steps: Steps whose emitted tokens are kept.
        drafts: Draft tokens of a request in a step.
        branches: Those at each depth, if they are a tree.
        places: Requests of a decode step; None: ``requests``.
        results: Names of the leading outputs, those that are not written in place.

    Raises:
        GraphError: An operation has no kernel, or the program is no serving form.
    """
    pairs = pairs_per_row(program)
    sizes = Capacities(
        rows,
        requests,
        context,
        blocks,
        blocks_for(context),
        pairs,
        steps=steps,
        drafts=drafts,
        branches=branches,
    )
    capacity = {
        "rows": rows,
        str(PACKED_ROWS): rows,
        "requests": requests,
        "context": context,
        "blocks": blocks,
        "table_blocks": sizes.table_blocks,
        "steps": steps,
        "places": requests if places is None else places,
    }
    prepared = _prepare(program, context)
    check_caches(prepared)
    selected = {
        graph.name: select_kernels(graph, capacity, sizes.pairs_per_row, target)
        for graph in prepared.graphs
    }
    kernels = name_all(prepared, selected, name)
    constants = {graph.name: find_constants(graph) for graph in prepared.graphs}
    lowered = LoweredProgram(prepared, selected, kernels, constants, capacity)
    flat = instantiate(lowered, input_buffers(prepared.main, capacity))
    _check_results(prepared, flat.outputs, results)
    return _finish(flat, lowered, sizes, name, results), tuple(flat.weights.values())


def _prepare(program: Program, context: int) -> Program:
    for step in (TabulatePositions(context), FoldWeights(), DropUnused()):
        program = step.run(program).program
    return program


def pairs_per_row(program: Program) -> int:
    """Return the experts per token, 0 without experts.

    Raises:
        GraphError: Two routers choose different numbers.
    """
    counts = {
        node.op.k
        for graph in program.graphs
        for node in graph.nodes
        if isinstance(node.op, RouteTopk)
    }
    if len(counts) > 1:
        raise GraphError(
            code="two-router-sizes",
            reason=f"routers choose {sorted(counts)} experts per token; the device is told one "
            "number of pairs",
            hint="such models are not served; give all layers one number of experts per token",
        )
    return counts.pop() if counts else 0


def input_buffers(graph: Graph, capacity: CapacityOf) -> dict[str, Buffer]:
    """Return the buffers of the entry's inputs, and the sizes."""
    buffers = {
        name: Buffer(
            name,
            storage_dtype(kind.dtype),
            capacities(kind.shape, capacity),
            Place.CACHE if name.startswith(CACHE_PREFIX) else Place.CONTROL,
        )
        for name, kind in graph.input_types.items()
    }
    return {**buffers, SIZES: Buffer(SIZES, DType.I32, (SIZES_ELEMENTS,), Place.CONTROL)}


def name_all(
    program: Program, selected: Mapping[str, LoweredGraph], name: str
) -> dict[str, list[Kernel | None]]:
    """Return the kernel of every step; names are numbered in the order of the launches."""
    order = list(_first_uses(program.main.name, selected, set()))
    kernels = name_kernels([step for _, _, step in order], name)
    named: dict[str, list[Kernel | None]] = {
        graph: [None] * len(each.steps) for graph, each in selected.items()
    }
    for (graph, i, _), kernel in zip(order, kernels, strict=True):
        named[graph][i] = kernel
    return named


def _first_uses(
    graph: str, selected: Mapping[str, LoweredGraph], seen: set[str]
) -> Iterator[tuple[str, int, KernelStep]]:
    """Yield graph, index and step of every launch as the first call of each graph meets it."""
    seen.add(graph)
    for i, step in enumerate(selected[graph].steps):
        if isinstance(step, KernelStep):
            yield graph, i, step
        elif step.call.callee not in seen:
            yield from _first_uses(step.call.callee, selected, seen)


def _check_results(program: Program, outputs: Sequence[Argument], results: Sequence[str]) -> None:
    """Check that a step returns its results, then what it changes in the buffers it came in.

    Raises:
        GraphError: The program is no serving form.
    """
    graph = program.main
    written = overwritten_inputs(program, graph)
    in_place = [
        name
        for name, value in zip(graph.input_types, graph.inputs, strict=True)
        if name.startswith(CACHE_PREFIX) or value in written
    ]
    returned = [output.buffer for output in outputs]
    made = returned[: len(results)]
    if returned[len(results) :] != in_place or len({*made} - {*graph.input_types}) < len(results):
        raise GraphError(
            code="no-serving-form",
            reason=f"@{graph.name} must return {', '.join(results)} and what it changes in place, "
            f"in order: it changes {', '.join(in_place) or 'nothing'} and behind {len(made)} "
            f"results returns {', '.join(returned[len(results) :]) or 'nothing'}",
            hint="run the pass derive-incremental-form first",
        )


def _finish(
    flat: Instantiated,
    lowered: LoweredProgram,
    sizes: Capacities,
    name: str,
    results: Sequence[str],
) -> LaunchPlan:
    """Name the results and place the temporaries."""
    renamed = dict(zip((output.buffer for output in flat.outputs), results, strict=False))
    buffers = [
        replace(buffer, name=renamed[buffer.name], place=Place.CONTROL)
        if buffer.name in renamed
        else buffer
        for buffer in flat.buffers.values()
    ]
    launches = tuple(_rename(launch, renamed) for launch in flat.launches)
    placed, arena_bytes = place_buffers(buffers, launches)
    used = dict.fromkeys(launch.kernel for launch in launches)
    kernels = {
        kernel.name: kernel for each in lowered.kernels.values() for kernel in each if kernel
    }
    return LaunchPlan(
        name=name,
        buffers=placed,
        launches=launches,
        kernels=tuple(kernels[kernel] for kernel in used),
        arena_bytes=arena_bytes,
        capacities=sizes,
        results=tuple(results),
        remarks=tuple(remark for each in lowered.graphs.values() for remark in each.remarks),
        works=works_of(lowered, used),
    )


def place_buffers(
    buffers: Sequence[Buffer], launches: Sequence[Launch]
) -> tuple[tuple[Buffer, ...], int]:
    """Return the buffers by place, temporaries with their offsets, and the size of the arena."""
    arena = {buffer.name: buffer.bytes for buffer in buffers if buffer.place is Place.ARENA}
    touched = [
        [argument.buffer for argument in launch.arguments if argument.buffer in arena]
        for launch in launches
    ]
    memory = plan_memory(arena, find_lifetimes(touched))
    order = (Place.CONTROL, Place.CACHE, Place.WEIGHT, Place.ARENA)
    placed = tuple(
        replace(buffer, offset_bytes=memory.offsets.get(buffer.name, 0))
        for place in order
        for buffer in buffers
        if buffer.place is place
    )
    return placed, memory.bytes


def works_of(lowered: LoweredProgram, used: Iterable[str]) -> tuple[KernelWork, ...]:
    """Return the work of every kernel, from the first graph that launches it."""
    works: dict[str, KernelWork] = {}
    for graph in lowered.program.graphs:
        pairs = zip(lowered.graphs[graph.name].steps, lowered.kernels[graph.name], strict=True)
        for step, kernel in pairs:
            if isinstance(step, KernelStep) and kernel and kernel.name not in works:
                location = str(graph.nodes[step.position].location.portable())
                works[kernel.name] = KernelWork(kernel.name, graph.name, step.work, location)
    return tuple(works[name] for name in used)


def _rename(launch: Launch, renamed: Mapping[str, str]) -> Launch:
    return replace(
        launch,
        arguments=tuple(
            replace(argument, buffer=renamed.get(argument.buffer, argument.buffer))
            for argument in launch.arguments
        ),
    )
