"""From a plain function over rows, without caches or requests, to a static launch plan."""

from dataclasses import dataclass, replace

from ascendfx.codegen.ascendc.launch_plan import Argument, Capacities, LaunchPlan, Place
from ascendfx.codegen.ascendc.lowering.graph_context import find_constants
from ascendfx.codegen.ascendc.lowering.instantiate import LoweredProgram, instantiate
from ascendfx.codegen.ascendc.lowering.lower_program import (
    input_buffers,
    name_all,
    pairs_per_row,
    place_buffers,
    works_of,
)
from ascendfx.codegen.ascendc.lowering.select_kernels import select_kernels
from ascendfx.codegen.ascendc.target import Target
from ascendfx.codegen.ascendc.weight_spec import WeightSpec
from ascendfx.ir.program import Program
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.fold_weights import FoldWeights


@dataclass(frozen=True)
class FunctionPlan:
    """The launches of a function.

    Attributes:
        plan: Its inputs are control buffers under their names; it has neither tokens nor logits.
        outputs: Where each result starts; results are dense.
        weights: How each weight follows from the parameters.
    """

    plan: LaunchPlan
    outputs: tuple[Argument, ...]
    weights: tuple[WeightSpec, ...]


def lower_function(program: Program, *, target: Target, rows: int, name: str) -> FunctionPlan:
    """Return the launches of one function.

    Args:
        program: Inputs and outputs start with the axis ``rows``.
        target: The chip.
        rows: How many there are.
        name: Of the plan.

    Raises:
        GraphError: An operation has no kernel.
    """
    for step in (FoldWeights(), DropUnused()):
        program = step.run(program).program
    pairs = pairs_per_row(program)
    capacity = {"rows": rows}
    selected = {
        graph.name: select_kernels(graph, capacity, pairs, target) for graph in program.graphs
    }
    kernels = name_all(program, selected, name)
    constants = {graph.name: find_constants(graph) for graph in program.graphs}
    lowered = LoweredProgram(program, selected, kernels, constants, capacity)
    flat = instantiate(lowered, input_buffers(program.main, capacity))
    returned = {output.buffer for output in flat.outputs}
    buffers = [
        replace(buffer, place=Place.CONTROL)
        if buffer.name in returned and buffer.place is Place.ARENA
        else buffer
        for buffer in flat.buffers.values()
    ]
    placed, arena_bytes = place_buffers(buffers, flat.launches)
    used = dict.fromkeys(launch.kernel for launch in flat.launches)
    by_name = {kernel.name: kernel for each in kernels.values() for kernel in each if kernel}
    plan = LaunchPlan(
        name=name,
        buffers=placed,
        launches=flat.launches,
        kernels=tuple(by_name[kernel] for kernel in used),
        arena_bytes=arena_bytes,
        capacities=Capacities(rows, 0, 0, 0, 0, pairs),
        results=(),
        remarks=tuple(remark for each in selected.values() for remark in each.remarks),
        works=works_of(lowered, used),
    )
    return FunctionPlan(plan, flat.outputs, tuple(flat.weights.values()))
