"""Draft trees: parents of nodes, and what follows from them."""

from collections.abc import Iterable, Sequence

from hypothesis import strategies as st


def ancestors_of(parents: Iterable[int]) -> list[int]:
    """Return the nodes that each node sees as bits, itself included; the root's parent is -1."""
    found: list[int] = []
    for node, parent in enumerate(parents):
        found.append(1 << node | (found[parent] if parent >= 0 else 0))
    return found


def depths_of(parents: Iterable[int]) -> list[int]:
    return [bits.bit_count() - 1 for bits in ancestors_of(parents)]


@st.composite
def trees(draw: st.DrawFn, nodes: int | None = None) -> tuple[int, ...]:
    """Return the parent of each node; parents come before their children."""
    count = draw(st.integers(1, 16)) if nodes is None else nodes
    rest: Sequence[int] = [draw(st.integers(0, node - 1)) for node in range(1, count)]
    return (-1, *rest)
