"""Search the fewest nodes on which a pass still makes its mistake."""

from collections.abc import Callable, Sequence

from ascendfx.ir.ops import Call, Constant, Input, Param
from ascendfx.passes.reduction.case import Case, Judge
from ascendfx.passes.reduction.cut_program import CannotCutError, Point, Recording, cut_program

_SIZES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64, 96, 128, 1 << 30)
"""Numbers of nodes that are tried, the fewest first."""

_Keep = frozenset[Point]


def shrink_nodes(
    recorded: Recording,
    judge: Judge,
    outputs: Sequence[Point],
    tried: Callable[[int], None] = lambda _: None,
) -> Case | None:
    """Return a case from which no node can be left out, or None if the pass makes no mistake.

    Args:
        recorded: The program with all its values.
        judge: Runs the pass.
        outputs: Nodes near the mistake; one of them becomes the output.
        tried: Told how many candidates were tried.
    """
    search = _Search(recorded, judge, tried)
    seen: set[tuple[Point, _Keep]] = set()
    for size in _SIZES:
        for output in outputs:
            keep = _nearest(recorded, output, size)
            if (output, keep) in seen:
                continue
            seen.add((output, keep))
            if search.fails(keep, output):
                return search.minimal(keep, output)
    return None


class _Search:
    def __init__(self, recorded: Recording, judge: Judge, tried: Callable[[int], None]) -> None:
        self._recorded = recorded
        self._judge = judge
        self._tried = tried
        self._count = 0

    def fails(self, keep: _Keep, output: Point) -> bool:
        """Whether the mistake is still made."""
        self._count += 1
        self._tried(self._count)
        case = self._case(keep, output)
        return case is not None and self._judge.observe(case) is not None

    def _case(self, keep: _Keep, output: Point) -> Case | None:
        try:
            return cut_program(self._recorded, keep, output)
        except CannotCutError:
            return None

    def minimal(self, keep: _Keep, output: Point) -> Case | None:
        """Leave out nodes one by one until each of them is needed."""
        changed = True
        while changed:
            changed = False
            for point in sorted(keep):
                fewer = keep - {point}
                if point != output and self.fails(fewer, output):
                    keep, changed = fewer, True
        return self._case(keep, output)


def _nearest(recorded: Recording, output: Point, size: int) -> _Keep:
    """Return the output and what it reads, breadth first, up to a number of nodes."""
    keep: dict[Point, None] = {}
    main, call = recorded.program.main.name, recorded.call
    pending = [output]
    while pending and len(keep) < size:
        point = pending.pop(0)
        op = recorded.node(point).op
        foreign = isinstance(op, Call) and point != (main, call)
        if point in keep or foreign or isinstance(op, Input | Param | Constant):
            continue
        keep[point] = None
        pending += recorded.reads(point)
    if call is not None and any(point[0] != main for point in keep):
        keep[main, call] = None
    return frozenset(keep)
