"""A launch plan as plain values for the page."""

from collections.abc import Sequence
from typing import Any

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, Place
from ascendfx.runtime.report.link_kernels import kernels_of_nodes
from ascendfx.runtime.report.map_memory import live_bytes, live_ranges
from ascendfx.runtime.report.read_program_text import TextGraph
from ascendfx.runtime.report.table import Table


def plan_data(plan: LaunchPlan, graphs: Sequence[TextGraph]) -> dict[str, Any]:
    """Return the plan with buffers, kernels and labels as numbers.

    Args:
        plan: The plan.
        graphs: The program it was lowered from, the entry first.
    """
    modules = {
        position: node.place.module
        for position, node in enumerate(graphs[0].nodes)
        if node.place.module
    }
    kernels = {kernel.name: number for number, kernel in enumerate(plan.kernels)}
    buffers = {buffer.name: number for number, buffer in enumerate(plan.buffers)}
    labels = Table()
    return {
        "arena": plan.arena_bytes,
        "capacities": {
            name: getattr(plan.capacities, name)
            for name in (
                "rows",
                "requests",
                "context",
                "blocks",
                "table_blocks",
                "pairs_per_row",
                "steps",
                "drafts",
            )
        },
        "remarks": list(plan.remarks),
        "kernels": [
            {
                "name": kernel.name,
                "family": kernel.family,
                "kind": kernel.kind.value,
                "blocks": kernel.blocks,
                "arguments": [
                    [each.name, each.dtype.value, each.direction.value, each.elements]
                    for each in kernel.arguments
                ],
            }
            for kernel in plan.kernels
        ],
        "buffers": [
            [buffer.name, buffer.dtype.value, list(buffer.shape), buffer.place.value, buffer.bytes]
            for buffer in plan.buffers
        ],
        "launches": [
            [
                kernels[launch.kernel],
                labels.number(launch.label),
                *(buffers[argument.buffer] for argument in launch.arguments),
            ]
            for launch in plan.launches
        ],
        "labels": labels.values,
        "places": {
            place.value: sum(buffer.bytes for buffer in plan.of_place(place)) for place in Place
        },
        "ranges": [
            [buffers[each.buffer.name], each.buffer.offset_bytes, each.first, each.last]
            for each in live_ranges(plan)
        ],
        "used": list(live_bytes(plan)),
        "nodes": kernels_of_nodes(plan, graphs, modules),
    }
