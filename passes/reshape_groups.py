"""Which axes of a reshape's operand make up which axes of its result."""

from dataclasses import dataclass

from ascendfx.ir.size import Dim, product


@dataclass(frozen=True, slots=True)
class AxisGroup:
    """Neighbouring axes whose elements stay together.

    Attributes:
        before: Axes of the operand; empty if the group is a new axis of size one.
        after: Axes of the result; empty if axes of size one disappear.
    """

    before: tuple[int, ...]
    after: tuple[int, ...]


def axis_groups(before: tuple[Dim, ...], after: tuple[Dim, ...]) -> tuple[AxisGroup, ...]:
    """Return the finest split of both shapes into groups with equal products, in order.

    Axes of size one are groups of their own wherever both sides allow it.
    """
    groups: list[AxisGroup] = []
    i = j = 0
    while i < len(before) or j < len(after):
        if i < len(before) and j < len(after) and before[i] == after[j]:
            groups.append(AxisGroup((i,), (j,)))
            i, j = i + 1, j + 1
        elif i < len(before) and before[i] == 1:
            groups.append(AxisGroup((i,), ()))
            i += 1
        elif j < len(after) and after[j] == 1:
            groups.append(AxisGroup((), (j,)))
            j += 1
        else:
            end_i, end_j = _meet(before, after, i, j)
            groups.append(AxisGroup(tuple(range(i, end_i)), tuple(range(j, end_j))))
            i, j = end_i, end_j
    return tuple(groups)


def _meet(before: tuple[Dim, ...], after: tuple[Dim, ...], i: int, j: int) -> tuple[int, int]:
    """Return the smallest ends after ``i`` and ``j`` with equal products."""
    ends = (
        (total - end_j, end_j)
        for total in range(i + j + 2, len(before) + len(after) + 1)
        for end_j in range(j + 1, len(after) + 1)
        if i < total - end_j <= len(before)
    )
    for end_i, end_j in ends:
        if product(before[i:end_i]) == product(after[j:end_j]):
            return end_i, end_j
    return len(before), len(after)
