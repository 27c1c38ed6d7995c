"""Which kernel computes which line of the lowered program."""

import re
from collections.abc import Mapping, Sequence

from ascendfx.codegen.ascendc.kernel import Direction
from ascendfx.codegen.ascendc.launch_plan import Launch, LaunchPlan
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
    by_name = {graph.name: graph for graph in graphs}
    found: dict[str, dict[int, list[int]]] = {}
    for number, launch in enumerate(plan.launches):
        written, read = _touched(plan, launch, owners)
        label = launch.label.rpartition(": ")[2].split(" + ")
        for owner, node in written or _readers(by_name, read, label):
            if node >= len(by_name[owner].nodes):
                continue
            launches = found.setdefault(owner, {}).setdefault(node, [])
            if number not in launches:
                launches.append(number)
    return {
        graph: {node: tuple(each) for node, each in nodes.items()} for graph, nodes in found.items()
    }


def _touched(
    plan: LaunchPlan, launch: Launch, owners: Mapping[str, str]
) -> tuple[list[tuple[str, int]], list[tuple[str, int]]]:
    """Return the graphs and nodes whose results a launch writes, and those it reads."""
    written: list[tuple[str, int]] = []
    read: list[tuple[str, int]] = []
    for formal, actual in zip(
        plan.kernel_by_name[launch.kernel].arguments, launch.arguments, strict=False
    ):
        name = _RESULT.fullmatch(actual.buffer)
        owner = owners.get(name["module"] or "") if name else None
        if name and owner is not None:
            into = written if formal.direction is Direction.OUT else read
            into.append((owner, int(name["node"])))
    return written, read


def _readers(
    graphs: Mapping[str, TextGraph], read: Sequence[tuple[str, int]], ops: Sequence[str]
) -> list[tuple[str, int]]:
    """Return the nodes of the operations ``ops`` that read one of the results.

    For launches that write no result of a node: a cache is written in place.
    """
    return [
        (owner, position)
        for owner, source in read
        for position, node in enumerate(graphs[owner].nodes)
        if node.body.op in ops and any(value == source for value, _ in node.operands)
    ]
