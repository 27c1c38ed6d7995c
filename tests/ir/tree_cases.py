"""Draft trees: parents of nodes, what follows from them, and operands of tree operations."""

from collections.abc import Iterable, Sequence

import numpy as np
from hypothesis import strategies as st

from ascendfx.ir.op import Array
from ascendfx.ir.ops import AdvanceRequests, AlignDrafts, BranchDrafts, MoveEntries, VerifyTree
from ascendfx.ir.step_state import STATE_COLUMNS, STOP_COLUMNS, State
from tests.ir.step_cases import advance_case, align_case


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


@st.composite
def verify_tree_case(
    draw: st.DrawFn, *, requests: int | None = None, parents: tuple[int, ...] | None = None
) -> tuple[VerifyTree, list[Array]]:
    """Trees over few tokens, so that siblings are alike and paths are long."""
    n = draw(st.integers(1, 9)) if requests is None else requests
    tree = draw(trees()) if parents is None else parents
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    ids, sampled = random.integers(0, 3, (2, n, len(tree)))
    state = random.integers(0, 100, (n, STATE_COLUMNS))
    state[:, State.DRAFTED] = random.integers(-1, len(tree) + 2, n)
    state[random.random(n) < 0.5, State.DRAFTED] = len(tree) - 1
    return VerifyTree(tree), [ids.reshape(-1), sampled.reshape(-1), state]


@st.composite
def move_case(
    draw: st.DrawFn,
    *,
    requests: int | None = None,
    nodes: int | None = None,
    block: int | None = None,
    columns: Sequence[int] = (3, 1),
) -> tuple[MoveEntries, list[Array]]:
    """Places of which some do not run, some accept nothing, some cross blocks or lack them."""
    n = draw(st.integers(1, 9)) if requests is None else requests
    count = draw(st.integers(1, 16)) if nodes is None else nodes
    size = draw(st.integers(1, 5)) if block is None else block
    width = draw(st.integers(1, 6))
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    blocks = n * width + 2
    table = random.permutation(blocks)[: n * width].reshape(n, width)
    state = random.integers(0, 1000, (n, STATE_COLUMNS))
    state[:, State.LENGTH] = random.integers(0, width * size + 2, n)
    state[:, State.FINISHED] = random.integers(0, 6, n) * (random.random(n) < 0.3)
    path = np.full((n, count), -1)
    for row in path:
        chosen = np.flatnonzero(random.random(count - 1) < random.random()) + 1
        row[: len(chosen) + 1] = [0, *chosen]
    return MoveEntries(count, len(columns)), [
        *(random.standard_normal((blocks, size, each)) for each in columns),
        np.where(random.random((n, width)) < 0.05, -1, table),
        state,
        path,
    ]


@st.composite
def paths(draw: st.DrawFn, n: int, parents: tuple[int, ...]) -> tuple[Array, Array]:
    """Paths from the root to any node, and how many drafts are on each."""
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    path = np.full((n, len(parents)), -1)
    bits = ancestors_of(parents)
    for row in path:
        end = bits[random.integers(len(parents))]
        nodes = [i for i in range(len(parents)) if end >> i & 1]
        row[: len(nodes)] = nodes
    return path, (path >= 0).sum(axis=1) - 1


@st.composite
def advance_tree_case(
    draw: st.DrawFn,
    *,
    requests: int | None = None,
    parents: tuple[int, ...] | None = None,
    block: int | None = None,
) -> tuple[AdvanceRequests, list[Array]]:
    """Places as those of `advance_case`, with rows that are nodes of a tree."""
    tree = draw(trees()) if parents is None else parents
    op, operands = draw(advance_case(requests=requests, drafts=len(tree) - 1, block=block))
    path, operands[6] = draw(paths(len(operands[4]), tree))
    operands[12:12] = [path]
    return AdvanceRequests(op.drafts, op.block, tree), operands


@st.composite
def align_tree_case(
    draw: st.DrawFn,
    *,
    requests: int | None = None,
    parents: tuple[int, ...] | None = None,
    block: int | None = None,
) -> tuple[AlignDrafts, list[Array]]:
    """Places as those of `align_case`, with rows that are nodes of a tree."""
    tree = draw(trees()) if parents is None else parents
    tree = tree if len(tree) > 1 else (-1, 0)
    while max(depths_of(tree)) > 8:
        tree = tree[:-1]
    drafts = max(depths_of(tree))
    op, operands = draw(align_case(requests=requests, drafts=drafts, block=block))
    n = len(operands[2])
    path, operands[3] = draw(paths(n, tree))
    operands[0] = np.arange(n * len(tree)) * 7 % 99
    return AlignDrafts(op.drafts, op.block, len(tree)), [*operands, path]


@st.composite
def branch_case(
    draw: st.DrawFn,
    *,
    requests: int | None = None,
    branches: int | None = None,
    columns: int | None = None,
) -> tuple[BranchDrafts, list[Array]]:
    """Logits with many ties, some rows of which are no numbers, or have few tokens."""
    n = draw(st.integers(1, 9)) if requests is None else requests
    b = draw(st.integers(1, 15)) if branches is None else branches
    width = draw(st.integers(1, 20)) if columns is None else columns
    random = np.random.default_rng(draw(st.integers(0, 2**32 - 1)))
    logits = random.integers(-6, 6, (n, width)).astype(np.float64)
    for value in (np.nan, np.inf, -np.inf):
        chosen = random.random(n) < 0.05
        logits[chosen, random.integers(0, width, n)[chosen]] = value
    logits[random.random(n) < 0.05] = 0
    logits[random.random(n) < 0.05, min(2, width - 1) :] = -np.inf
    state = random.integers(0, 9, (n, STATE_COLUMNS))
    stops = random.integers(-1, min(width, 9), (n, STOP_COLUMNS))
    accepted = random.integers(0, 4, n)
    return BranchDrafts(draw(st.integers(0, 3)), b), [logits, state, stops, accepted]
