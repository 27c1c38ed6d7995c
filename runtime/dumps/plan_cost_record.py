"""What a dump says of the cost of a plan: the content of ``cost.json``."""

from typing import Any

from ascendfx.codegen.ascendc.cost_model import PlanCost


def plan_cost_record(cost: PlanCost) -> dict[str, Any]:
    """Return the content of ``cost.json``."""
    return {
        "target": cost.target,
        "step": {
            "rows": cost.step.rows,
            "requests": cost.step.requests,
            "context": cost.step.context,
        },
        "launches": cost.launches,
        "total": {
            "microseconds": cost.seconds * 1e6,
            "bytes": cost.bytes,
            "operations": cost.operations,
        },
        "kernels": [
            {
                "name": each.work.kernel,
                "kernel": f"{each.work.kernel}.cpp",
                "launches": each.launches,
                "microseconds": each.launches * each.each.seconds * 1e6,
                "bytes": each.launches * each.each.bytes,
                "operations": each.launches * each.each.operations,
                "bound": each.each.bound,
                "graph": each.work.graph,
                "location": each.work.location,
            }
            for each in cost.kernels
        ],
    }
