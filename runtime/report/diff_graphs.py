"""Which lines of a graph a pass kept, changed, removed and added.

A line's number says nothing: one node more and every later line has another. Lines are therefore
compared by what they compute. First come the lines whose whole past is equal; the longest chain of
them that increases on both sides is kept. Between two of these, lines are paired so that the most
bodies stay equal, gaps cost nothing (Source: Needleman and Wunsch 1970, a general method applicable
to the search for similarities).
"""

from bisect import bisect_left
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from difflib import SequenceMatcher

from ascendfx.runtime.report.read_program_text import Body, TextGraph, Value

_LARGE = 1_000_000
"""Pairs of lines beyond which a gap is compared with `difflib`, which needs less memory."""
_SAME_PAST, _EQUAL, _ALIKE = 4, 3, 1
"""Worth of a pair that computes the same from the same, of one with equal bodies, and of one that
differs in attributes or types only."""

Line = tuple[int, Body]
"""Number of what a line computes, its whole past included, and what it says itself."""


@dataclass(frozen=True, slots=True)
class GraphDiff:
    """Pairs of lines; what is in no pair was removed or added.

    Attributes:
        same: ``(before, after)`` of lines that differ at most in numbering, increasing in both.
        edited: ``(before, after)`` of lines that say something else, or read something else.
        outputs_same: Whether the graph returns what it returned before.
    """

    same: tuple[tuple[int, int], ...]
    edited: tuple[tuple[int, int], ...]
    outputs_same: bool


def diff_graphs(before: TextGraph, after: TextGraph) -> GraphDiff:
    """Return how the lines of two graphs correspond."""
    pairs = list(_pairs(before, after))
    moved = dict(pairs)
    same: list[tuple[int, int]] = []
    edited: list[tuple[int, int]] = []
    for i, j in pairs:
        old, new = before.nodes[i], after.nodes[j]
        equal = old.body == new.body and _follow(old.operands, moved) == list(new.operands)
        (same if equal else edited).append((i, j))
    outputs_same = _follow(before.outputs, moved) == list(after.outputs)
    return GraphDiff(tuple(same), tuple(edited), outputs_same)


def _follow(values: Sequence[Value], moved: dict[int, int]) -> list[Value | None]:
    return [(moved[node], result) if node in moved else None for node, result in values]


def _pairs(before: TextGraph, after: TextGraph) -> Iterator[tuple[int, int]]:
    """Yield pairs of corresponding lines, increasing in both."""
    known: dict[tuple[Body, tuple[Value, ...]], int] = {}
    old, new = _lines(before, known), _lines(after, known)
    i = j = 0
    for a, b in [*_anchors(old, new), (len(old), len(new))]:
        yield from ((i + x, j + y) for x, y in _align(old[i:a], new[j:b]))
        if a < len(old) and b < len(new):
            yield a, b
        i, j = a + 1, b + 1


def _anchors(old: Sequence[Line], new: Sequence[Line]) -> list[tuple[int, int]]:
    """Return the longest increasing chain of lines that compute the same from the same.

    What stands there more often on one side is left to `_align`: which one of them is the same?
    """
    counts = Counter(past for past, _ in old), Counter(past for past, _ in new)
    place = {key: j for j, key in enumerate(_numbered(new))}
    found = [
        (i, place[key])
        for i, key in enumerate(_numbered(old))
        if counts[0][key[0]] == counts[1][key[0]]
    ]
    return _longest_increasing(found)


def _lines(graph: TextGraph, known: dict[tuple[Body, tuple[Value, ...]], int]) -> list[Line]:
    """Return the lines of a graph; ``known`` numbers what they compute."""
    lines: list[Line] = []
    for node in graph.nodes:
        key = (node.body, tuple((lines[n][0], result) for n, result in node.operands))
        lines.append((known.setdefault(key, len(known)), node.body))
    return lines


def _numbered(lines: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Yield what each line computes with how often that came before."""
    counts: Counter[int] = Counter()
    for past, _ in lines:
        yield past, counts[past]
        counts[past] += 1


def _longest_increasing(pairs: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Return a longest chain of ``pairs``, sorted by first, that also increases in the second."""
    ends: list[int] = []  # smallest second of a chain of each length
    last: list[int] = []  # index of that pair
    previous: list[int] = []
    for index, (_, second) in enumerate(pairs):
        length = bisect_left(ends, second)
        previous.append(last[length - 1] if length else -1)
        ends[length : length + 1] = [second]
        last[length : length + 1] = [index]
    chain: list[tuple[int, int]] = []
    at = last[-1] if last else -1
    while at >= 0:
        chain.append(pairs[at])
        at = previous[at]
    return chain[::-1]


def _align(old: Sequence[Line], new: Sequence[Line]) -> Iterator[tuple[int, int]]:
    """Yield the pairs of the best alignment of two runs of lines."""
    if len(old) * len(new) > _LARGE:
        bodies = [body for _, body in old], [body for _, body in new]
        for block in SequenceMatcher(None, *bodies, autojunk=False).get_matching_blocks():
            yield from ((block.a + k, block.b + k) for k in range(block.size))
        return
    worth = [[_worth(a, b) for b in new] for a in old]
    best = [[0] * (len(new) + 1) for _ in range(len(old) + 1)]
    for i in range(len(old) - 1, -1, -1):
        for j in range(len(new) - 1, -1, -1):
            paired = best[i + 1][j + 1] + worth[i][j] if worth[i][j] else 0
            best[i][j] = max(paired, best[i + 1][j], best[i][j + 1])
    i = j = 0
    while i < len(old) and j < len(new):
        if worth[i][j] and best[i][j] == best[i + 1][j + 1] + worth[i][j]:
            yield i, j
            i, j = i + 1, j + 1
        elif best[i][j] == best[i + 1][j]:
            i += 1
        else:
            j += 1


def _worth(old: Line, new: Line) -> int:
    (past, a), (other_past, b) = old, new
    if past == other_past:
        return _SAME_PAST
    if a == b:
        return _EQUAL
    if a.op == b.op and a.name == b.name and (a.types == b.types or a.attributes == b.attributes):
        return _ALIKE
    return 0
