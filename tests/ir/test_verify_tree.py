"""The accepted path of a draft tree, and its entries, are what a walk from the root finds."""

import numpy as np
from hypothesis import given

from ascendfx.ir.op import Array
from ascendfx.ir.ops import MoveEntries, VerifyDrafts, VerifyTree
from ascendfx.ir.step_state import Finish, State
from tests.ir.step_cases import verify_case
from tests.ir.tree_cases import move_case, verify_tree_case


def walked(op: VerifyTree, ids: list[int], sampled: list[int], drafted: int) -> list[int]:
    """Return the nodes from the root to the last accepted one."""
    path = [0]
    while True:
        children = [i for i, parent in enumerate(op.parents) if parent == path[-1]]
        agree = [i for i in children if i <= drafted and ids[i] == sampled[path[-1]]]
        if not agree:
            return path
        path.append(agree[0])


@given(case=verify_tree_case())
def test_the_path_is_that_of_a_walk(case: tuple[VerifyTree, list[Array]]) -> None:
    op, operands = case
    ids, sampled, state = operands
    nodes = len(op.parents)
    accepted, last_rows, new, paths = op.reference(*operands)
    for b, (tokens, chosen, row) in enumerate(
        zip(
            ids.reshape(-1, nodes).tolist(), sampled.reshape(-1, nodes).tolist(), state, strict=True
        )
    ):
        path = walked(op, tokens, chosen, row[State.DRAFTED])
        assert paths[b].tolist() == path + [-1] * (nodes - len(path))
        assert accepted[b] == len(path) - 1
        assert last_rows[b] == b * nodes + path[-1]
        assert new[b] == chosen[path[-1]]


@given(case=verify_case())
def test_a_chain_is_verified_as_drafts_are(case: tuple[VerifyDrafts, list[Array]]) -> None:
    op, operands = case
    *found, path = VerifyTree(tuple(range(-1, op.drafts))).reference(*operands)
    for each, wanted in zip(found, op.reference(*operands), strict=True):
        np.testing.assert_array_equal(each, wanted)
    columns = np.arange(op.drafts + 1)
    np.testing.assert_array_equal(path, np.where(columns <= found[0][:, None], columns, -1))


def moved(op: MoveEntries, cache: Array, tables: list[Array]) -> Array:
    """Move one entry after the other, in the order of the path."""
    table, state, path = tables
    cache, size = cache.copy(), cache.shape[1]
    for blocks, row, nodes in zip(table, state, path, strict=True):

        def place(token: int, blocks: Array = blocks) -> tuple[int, int] | None:
            column, offset = divmod(token, size)
            inside = column < len(blocks) and blocks[column] >= 0
            return (blocks[column], offset) if inside else None

        for j, node in enumerate(nodes[: op.nodes]):
            source, target = (place(row[State.LENGTH] + i) for i in (max(node, 0), j))
            if row[State.FINISHED] == Finish.RUNS and node >= 0 and source and target:
                cache[target] = cache[source]
    return cache


@given(case=move_case())
def test_moving_at_once_is_moving_along_the_path(case: tuple[MoveEntries, list[Array]]) -> None:
    op, operands = case
    before = [each.copy() for each in operands]
    for cache, found in zip(operands[:-3], op.reference(*operands), strict=True):
        np.testing.assert_array_equal(found, moved(op, cache, operands[-3:]))
    for each, old in zip(operands, before, strict=True):
        np.testing.assert_array_equal(each, old)
