"""Give every temporary buffer a place in one arena: buffers alive together never overlap."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

ALIGNMENT = 512
"""Bytes; full bandwidth needs 512-byte aligned copies (asc-devkit, hardware limits, 2201)."""


@dataclass(frozen=True, slots=True)
class Lifetime:
    """When a buffer holds a value, in launch numbers.

    Attributes:
        first: The launch that writes it first.
        last: The last launch that touches it.
    """

    first: int
    last: int

    def overlaps(self, other: "Lifetime") -> bool:
        """Return whether one launch needs both."""
        return self.first <= other.last and other.first <= self.last


@dataclass(frozen=True, slots=True)
class MemoryPlan:
    """Where temporaries lie.

    Attributes:
        offsets: First byte of each buffer, a multiple of `ALIGNMENT`.
        bytes: Size of the arena.
        lower_bound: Largest sum of the sizes alive at one launch; no plan needs less.
    """

    offsets: Mapping[str, int]
    bytes: int
    lower_bound: int


def find_lifetimes(touched: Sequence[Sequence[str]]) -> dict[str, Lifetime]:
    """Return the lifetime of every buffer, given the buffers each launch touches."""
    lifetimes: dict[str, Lifetime] = {}
    for at, names in enumerate(touched):
        for name in names:
            first = lifetimes[name].first if name in lifetimes else at
            lifetimes[name] = Lifetime(first, at)
    return lifetimes


def plan_memory(sizes: Mapping[str, int], lifetimes: Mapping[str, Lifetime]) -> MemoryPlan:
    """Place buffers, largest first, each into the smallest gap that fits it.

    Args:
        sizes: Bytes of each buffer.
        lifetimes: When each is needed.
    """
    padded = {name: -(-max(size, 1) // ALIGNMENT) * ALIGNMENT for name, size in sizes.items()}
    order = sorted(sizes, key=lambda name: (-padded[name], lifetimes[name].first, name))
    offsets: dict[str, int] = {}
    ends = 0
    placed: list[tuple[Lifetime, int, int]] = []
    for name in order:
        lifetime = lifetimes[name]
        taken = sorted((start, end) for other, start, end in placed if other.overlaps(lifetime))
        start = _best_gap(taken, padded[name])
        offsets[name] = start
        placed.append((lifetime, start, start + padded[name]))
        ends = max(ends, start + padded[name])
    return MemoryPlan(offsets, ends, _most_alive(padded, lifetimes))


def _best_gap(taken: Sequence[tuple[int, int]], size: int) -> int:
    """Return the start of the smallest gap of at least ``size``; behind all else if none fits."""
    best: tuple[int, int] | None = None
    free = 0
    for start, end in taken:
        if start - free >= size and (best is None or start - free < best[0]):
            best = (start - free, free)
        free = max(free, end)
    return free if best is None else best[1]


def _most_alive(sizes: Mapping[str, int], lifetimes: Mapping[str, Lifetime]) -> int:
    changes: dict[int, int] = {}
    for name, size in sizes.items():
        lifetime = lifetimes[name]
        changes[lifetime.first] = changes.get(lifetime.first, 0) + size
        changes[lifetime.last + 1] = changes.get(lifetime.last + 1, 0) - size
    alive = most = 0
    for at in sorted(changes):
        alive += changes[at]
        most = max(most, alive)
    return most
