"""Operations of steps with draft trees are those of chains, along the accepted path."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.draft_tree import DraftTree, depths_of
from ascendfx.ir.op import Array
from ascendfx.ir.ops import AdvanceRequests, AlignDrafts, BranchDrafts
from ascendfx.ir.step_state import STATE_COLUMNS, STOP_COLUMNS, State
from tests.ir import tree_cases
from tests.ir.step_rates import rate_behind
from tests.ir.tree_cases import advance_tree_case, align_tree_case, branch_case

BRANCHES = st.lists(st.integers(1, 4), max_size=5).map(tuple)


@given(BRANCHES)
def test_nodes_follow_the_first_of_the_depth_before(branches: tuple[int, ...]) -> None:
    tree = DraftTree(branches)
    assert tree.depths == tuple(
        sorted(d for d, count in enumerate((1, *branches)) for _ in range(count))
    )
    spine = [tree.depths.index(depth) for depth in range(tree.depth + 1)]
    for node, parent in enumerate(tree.parents[1:], 1):
        assert parent == spine[tree.depths[node] - 1]
    assert tree.depths == depths_of(tree.parents) == tuple(tree_cases.depths_of(tree.parents))
    assert list(tree.ancestors) == tree_cases.ancestors_of(tree.parents)
    assert tree.drafts == len(tree.parents) - 1 == sum(branches)


@given(BRANCHES)
def test_the_first_depths_are_a_tree_of_their_own(branches: tuple[int, ...]) -> None:
    tree = DraftTree(branches)
    for depth, end in enumerate(tree.ends):
        smaller = DraftTree(branches[:depth])
        assert (smaller.drafts, smaller.parents) == (end, tree.parents[: end + 1])


def test_a_chain_is_a_tree() -> None:
    tree = DraftTree((1, 1, 1))
    assert (tree.parents, tree.depths) == ((-1, 0, 1, 2), (0, 1, 2, 3))
    assert tree.ancestors == (1, 3, 7, 15)


def test_leaves_repeat_the_draft_beside_them() -> None:
    tree = DraftTree((3, 1, 2))
    assert tree.spread((5, 6, 7)) == (5, 5, 5, 6, 7, 7)
    assert tree.spread((5,)) == (5, 5, 5)
    assert tree.spread(()) == ()


def _adapted(op: AdvanceRequests, operands: list[Array]) -> list[list[int]]:
    """Return RATE, DRAFTS and DRAFTED of each place, which count depths and nodes."""
    depths, found = depths_of(op.parents), list[list[int]]()
    step, runs_on = operands[9], op.reference(*operands)[3][:, State.FINISHED] == 0
    rows = operands[4].tolist(), operands[6].tolist(), runs_on.tolist()
    for row, accepted, on in zip(*rows, strict=True):
        if len(operands) > op.fixed and not row[State.FINISHED]:
            tried = accepted + (accepted < depths[row[State.DRAFTED]])
            row[State.RATE] = rate_behind(row[State.RATE], accepted, tried)
        if len(operands) > op.fixed and on and row[State.ADAPTIVE] and step[1] >= 0:
            depth = sum(bool(each <= row[State.RATE]) for each in step[1 : 1 + max(depths)])
            depth = depth or int((row[State.STEPS] + 1) % 16 == 0)
            row[State.DRAFTS] = sum(each <= depth for each in depths) - 1
        if on:
            row[State.DRAFTED] = min(row[State.DRAFTS], op.drafts) * (len(operands) > op.fixed)
        found.append([row[State.RATE], row[State.DRAFTS], row[State.DRAFTED]])
    return found


@given(case=advance_tree_case())
def test_a_tree_advances_as_the_chain_of_its_path(
    case: tuple[AdvanceRequests, list[Array]],
) -> None:
    op, operands = case
    n, rows = len(operands[4]), op.drafts + 1
    path, drafts = operands[12], operands[13:]
    along = np.take_along_axis(operands[0].reshape(n, rows), np.maximum(path, 0), axis=1)
    chain = [along.reshape(-1), *operands[1:12], *drafts]
    ids, _, slots, state, *wanted = replace(op, parents=()).reference(*chain)
    found = op.reference(*operands)
    for mine, other in zip(found[4:], wanted, strict=True):
        np.testing.assert_array_equal(mine, other)
    depths = np.array(depths_of(op.parents))
    before, after = operands[4], found[3]
    runs = after[:, State.FINISHED] == 0
    proposed = before[:, State.PROPOSED] + np.where(runs, depths[before[:, State.DRAFTED]], 0)
    np.testing.assert_array_equal(after[:, State.PROPOSED], proposed)
    state[:, State.PROPOSED] = proposed
    own = [State.RATE, State.DRAFTS, State.DRAFTED]
    state[:, own] = _adapted(op, operands)
    np.testing.assert_array_equal(after, state)
    on = np.repeat(runs, rows)
    np.testing.assert_array_equal(found[0], np.where(on, ids, operands[0]))
    at = (after[:, State.LENGTH, None] + depths).reshape(-1)
    np.testing.assert_array_equal(found[1], np.where(on, at, operands[1]))
    np.testing.assert_array_equal(found[2], slots)


@given(case=advance_tree_case(parents=(-1, 0, 1, 2)))
def test_a_tree_that_is_a_chain_advances_as_one(case: tuple[AdvanceRequests, list[Array]]) -> None:
    op, operands = case
    wanted = replace(op, parents=()).reference(*operands[:12], *operands[13:])
    for found, other in zip(op.reference(*operands), wanted, strict=True):
        np.testing.assert_array_equal(found, other)


@given(case=align_tree_case())
def test_rows_of_a_tree_are_aligned_as_the_chain_of_its_path(
    case: tuple[AlignDrafts, list[Array]],
) -> None:
    op, operands = case
    (*_, path), n, used = operands, len(operands[2]), op.drafts + 1
    at = np.maximum(path[:, :used], 0)
    along = np.take_along_axis(operands[0].reshape(n, op.nodes), at, axis=1).reshape(-1)
    chain = AlignDrafts(op.drafts, op.block)
    ids, places, slots, last, kept, held, recent = chain.reference(along, *operands[1:6])
    found = [each.reshape(n, -1) for each in op.reference(*operands)]
    for mine, other, filler in (
        (found[0], ids, 0),
        (found[1], places, 0),
        (found[2], slots, -1),
        (found[5], held, None),
    ):
        np.testing.assert_array_equal(mine[:, :used], other.reshape(n, used))
        outside = mine[:, used:]
        first = np.arange(n)[:, None] * (2 * op.drafts + 1)
        np.testing.assert_array_equal(
            outside, np.broadcast_to(first if filler is None else filler, outside.shape)
        )
    np.testing.assert_array_equal(found[3].ravel(), last // used * op.nodes + op.drafts)
    np.testing.assert_array_equal(found[6], recent)
    for b in range(n):
        wanted = np.full(op.nodes, -1)
        nodes = path[b][path[b] >= 0]
        wanted[nodes] = kept.reshape(n, used)[b, : len(nodes)]
        np.testing.assert_array_equal(found[4][b], wanted)


@given(case=branch_case())
def test_branches_are_the_most_likely_tokens_in_order(
    case: tuple[BranchDrafts, list[Array]],
) -> None:
    op, (logits, state, stops, accepted) = case
    for b, found in enumerate(np.stack(op.reference(logits, state, stops, accepted), 1)):
        row = logits[b].tolist()
        new = state[b, State.GENERATED] + accepted[b] + 1 + op.depth
        banned = set(stops[b].tolist()) if new < state[b, State.MINIMUM] else set[int]()
        order = sorted(range(len(row)), key=lambda i: (-row[i], i))
        free = [i for i in order if i not in banned and row[i] > -np.inf]
        broken = np.isnan(row).any() or np.inf in row or not any(row)
        free = [0] if broken or not free else free
        wanted = [*free, *free[:1] * op.branches][: op.branches]
        assert found.tolist() == wanted


@pytest.mark.parametrize("depth", [0, 2])
def test_siblings_of_a_request_that_cannot_end_are_no_stop_tokens(depth: int) -> None:
    state = np.zeros((1, STATE_COLUMNS), np.int64)
    state[0, State.MINIMUM] = 3 + depth
    stops = np.full((1, STOP_COLUMNS), -1)
    stops[0, :2] = 4, 2
    logits = np.array([[0.0, 1.0, 2.0, 3.0, 4.0]])
    for accepted, wanted in ((1, [3, 1]), (2, [4, 3])):
        drafts = BranchDrafts(depth, 2).reference(logits, state, stops, np.array([accepted]))
        assert [int(each[0]) for each in drafts] == wanted
