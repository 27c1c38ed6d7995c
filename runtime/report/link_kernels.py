"""Which kernel computes which line of the lowered program."""

import re
from collections.abc import Mapping, Sequence

from ascendfx.codegen.ascendc.kernel import Direction
from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.runtime.report.read_program_text import TextGraph

_RESULT = re.compile(r"(?:(?P<module>.+)\.)?\w+\.(?P<node>\d+)(?:\.\d+)?")
"""Name of a buffer that holds a result: module path of the layer, operation, node, result."""
_CALLEE = re.compile(r'callee="(?P<name>[^"]+)"')


def kernels_of_nodes(
    plan: LaunchPlan, graphs: Sequence[TextGraph], modules: Mapping[int, str]
) -> dict[str, dict[int, tuple[int, ...]]]:
    """Return, per graph and node, the numbers of the launches that write its results.

    Args:
        plan: Its buffers are named after nodes; see `_RESULT`.
        graphs: The program that was lowered, the entry first.
        modules: Module path of each call of the entry graph, by node.
    """
    main = graphs[0]
    owners = {"": main.name}
    for position, node in enumerate(main.nodes):
        callee = _CALLEE.search(node.body.attributes) if node.body.op == "call" else None
        if callee and position in modules:
            owners[modules[position]] = callee["name"]
    sizes = {graph.name: len(graph.nodes) for graph in graphs}
    found: dict[str, dict[int, list[int]]] = {}
    for number, launch in enumerate(plan.launches):
        kernel = plan.kernel_by_name[launch.kernel]
        for formal, actual in zip(kernel.arguments, launch.arguments, strict=False):
            name = _RESULT.fullmatch(actual.buffer)
            owner = owners.get(name["module"] or "") if name else None
            if formal.direction is not Direction.OUT or not name or owner is None:
                continue
            if (node := int(name["node"])) < sizes[owner]:
                launches = found.setdefault(owner, {}).setdefault(node, [])
                if number not in launches:
                    launches.append(number)
    return {
        graph: {node: tuple(each) for node, each in nodes.items()} for graph, nodes in found.items()
    }
