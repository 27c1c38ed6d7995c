"""Search the fewest nodes on which a pass still makes its mistake."""

from collections.abc import Callable, Sequence

from ascendfx.ir.ops import Call, Constant, Input, Param
from ascendfx.passes.reduction.case import Case, Judge
from ascendfx.passes.reduction.cut_program import CannotCutError, Point, Recording, cut_program

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32)
"""Numbers of nodes that are tried around the likely places, the fewest first."""

_Keep = frozenset[Point]


def shrink_nodes(
    recorded: Recording,
    judge: Judge,
    likely: Sequence[Point],
    tried: Callable[[int], None] = lambda _: None,
) -> Case | None:
    """Return a case from which no node can be left out, or None if the pass makes no mistake.

    Args:
        recorded: The program with all its values.
        judge: Runs the pass.
        likely: Nodes near the mistake, where a small case is looked for first.
        tried: Told how many candidates were tried.
    """
    search = _Search(recorded, judge, tried)
    seen: set[_Keep] = set()
    for size in _SIZES:
        for point in likely:
            keep = _nearest(recorded, point, size)
            if keep and keep not in seen:
                seen.add(keep)
                if search.fails(keep):
                    return search.case(search.minimal(keep))
    whole = _everything(recorded)
    return search.case(search.minimal(whole)) if search.fails(whole) else None


class _Search:
    def __init__(self, recorded: Recording, judge: Judge, tried: Callable[[int], None]) -> None:
        self._recorded = recorded
        self._judge = judge
        self._tried = tried
        self._count = 0

    def fails(self, keep: _Keep) -> bool:
        """Whether the mistake is still made."""
        self._count += 1
        self._tried(self._count)
        case = self.case(keep)
        return case is not None and self._judge.observe(case) is not None

    def case(self, keep: _Keep) -> Case | None:
        """Return the case of some nodes, if there is one."""
        try:
            return cut_program(self._recorded, keep)
        except CannotCutError:
            return None

    def minimal(self, keep: _Keep) -> _Keep:
        """Leave out nodes, many at a time and then one by one, until each of them is needed.

        Source: Zeller and Hildebrandt, Simplifying and Isolating Failure-Inducing Input, IEEE
        Transactions on Software Engineering 28(2), 2002; complements only.
        """
        parts = 2
        while len(keep) > 1:
            ordered = sorted(keep)
            length = -(-len(ordered) // parts)
            for start in range(0, len(ordered), length):
                fewer = keep - frozenset(ordered[start : start + length])
                if fewer and self.fails(fewer):
                    keep, parts = fewer, max(parts - 1, 2)
                    break
            else:
                if length == 1:
                    return keep
                parts = min(2 * parts, len(ordered))
        return keep


def _everything(recorded: Recording) -> _Keep:
    """Return all nodes that compute something, and no call but the one of the recording."""
    main, function = recorded.program.main, recorded.function
    graphs = [main] + ([function] if function is not None else [])
    return frozenset(
        (graph.name, position)
        for graph in graphs
        for position in range(len(graph.nodes))
        if _computes(recorded, (graph.name, position))
    )


def _computes(recorded: Recording, point: Point) -> bool:
    op = recorded.node(point).op
    if isinstance(op, Call):
        return point == (recorded.program.main.name, recorded.call)
    return not isinstance(op, Input | Param | Constant)


def _nearest(recorded: Recording, end: Point, size: int) -> _Keep:
    """Return a node and what it reads, breadth first, up to a number of nodes."""
    keep: dict[Point, None] = {}
    pending = [end]
    while pending and len(keep) < size:
        point = pending.pop(0)
        if point not in keep and _computes(recorded, point):
            keep[point] = None
            pending += recorded.reads(point)
    main, call = recorded.program.main.name, recorded.call
    if call is not None and any(point[0] != main for point in keep):
        keep[main, call] = None
    return frozenset(keep)
