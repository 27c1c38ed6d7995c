"""The shape of the drafts of a step: a spine, and other candidates beside it."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from functools import cached_property


def depths_of(parents: Iterable[int]) -> tuple[int, ...]:
    """Return how far each node is from the root, which is node 0 and has the parent -1."""
    depths: list[int] = []
    for parent in parents:
        depths.append(depths[parent] + 1 if parent >= 0 else 0)
    return tuple(depths)


@dataclass(frozen=True)
class DraftTree:
    """Drafts of one layer per depth, of which each gives its most likely tokens.

    The nodes at depth ``j`` all follow the most likely token of depth ``j - 1``: the *spine*. The
    others are leaves. Node 0 is the root, which carries the last emitted token; then come the nodes
    of depth 1, those of depth 2 and so on, at each depth that of the spine first. So the first
    nodes are a smaller tree of the same kind, and parents stand before their children.

    Attributes:
        branches: Candidates at each depth from 1 on, at least 1.
    """

    branches: tuple[int, ...]

    @cached_property
    def parents(self) -> tuple[int, ...]:
        """The node before each; -1 of the root."""
        parents, spine = [-1], 0
        for count in self.branches:
            first = len(parents)
            parents += [spine] * count
            spine = first
        return tuple(parents)

    @cached_property
    def depths(self) -> tuple[int, ...]:
        """How far each node is from the root."""
        return depths_of(self.parents)

    @cached_property
    def ancestors(self) -> tuple[int, ...]:
        """The nodes that each one sees as bits, itself included; see `RaggedAttention`."""
        seen: list[int] = []
        for node, parent in enumerate(self.parents):
            seen.append(1 << node | (seen[parent] if parent >= 0 else 0))
        return tuple(seen)

    @cached_property
    def ends(self) -> tuple[int, ...]:
        """How many drafts there are up to each depth, from depth 0, which has none, on."""
        ends = [0]
        for count in self.branches:
            ends.append(ends[-1] + count)
        return tuple(ends)

    @property
    def drafts(self) -> int:
        """Nodes behind the root."""
        return self.ends[-1]

    @property
    def depth(self) -> int:
        """Drafts that can be accepted together."""
        return len(self.branches)

    def spread(self, spine: Sequence[int]) -> tuple[int, ...]:
        """Return drafts where only those of the spine are known, one for each depth.

        A leaf repeats the draft beside it: the second of two equal siblings is never on a path.
        """
        pairs = zip(spine, self.branches, strict=False)
        return tuple(token for token, count in pairs for _ in range(count))
