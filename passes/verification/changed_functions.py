"""The functions that a pass changed, each beside the one before."""

from collections.abc import Iterator

from ascendfx.ir.graph import Graph
from ascendfx.passes.verification.compare_step import LOGITS
from ascendfx.passes.verification.follow_truth import Step


def changed_functions(before: Step, after: Step) -> Iterator[tuple[int, Graph, Graph]]:
    """Yield a call, its function after a pass and that before, where they are not equal.

    Functions are compared with those of the same call, the entry (`LOGITS`) with the entry; each
    function once. If the number of calls is another one, the entries alone are compared.
    """
    calls = [each.call.callee for each in after.run.calls]
    places = {name: number for number, name in reversed(list(enumerate(calls)))}
    if len(calls) != len(before.run.calls):
        places = {}
    for call in (*sorted(places.values()), LOGITS):
        graph, old = (_graph(step, call) for step in (after, before))
        if graph != old:
            yield call, graph, old


def _graph(step: Step, call: int) -> Graph:
    program = step.runner.program
    return program.main if call == LOGITS else program.by_name[step.run.calls[call].call.callee]
