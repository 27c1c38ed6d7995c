"""Steps with draft trees: what passes make of a chain, and what they refuse when it is changed."""

import json

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.graph import Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    AdvanceRequests,
    AlignDrafts,
    BranchDrafts,
    MoveEntries,
    RaggedAttention,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
    VerifyDrafts,
    VerifyTree,
)
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.close_step import CloseStep
from ascendfx.passes.describe_pass import PassForm, describe_pass, restore_pass
from ascendfx.passes.fuse_mtp import FuseMtp
from ascendfx.passes.shifted_convention import check_shifted_convention
from tests.passes.fused_steps import fused_step
from tests.passes.step_edits import Change, Edit, edited, reads, reads_result

TREES = ((2,), (2, 1), (1, 3), (3, 2, 2))


def step(branches: tuple[int, ...], plan: str = "decode") -> Program:
    return fused_step(plan, len(branches), branches=branches)


def ops(program: Program, kind: type[Op]) -> list[Op]:
    return [n.op for g in program.graphs for n in g.nodes if isinstance(n.op, kind)]


@pytest.mark.parametrize("branches", TREES)
@pytest.mark.parametrize("plan", ["decode", "prefill"])
@pytest.mark.parametrize("early", [False, True])
def test_steps_with_trees_keep_the_convention(
    plan: str,
    branches: tuple[int, ...],
    early: bool,  # noqa: FBT001
) -> None:
    program = fused_step(plan, len(branches), early=early, branches=branches)
    verify_program(program)
    assert check_shifted_convention(program) == len(branches)
    assert parse_program(print_program(program)).graphs == program.graphs


@pytest.mark.parametrize("branches", TREES)
def test_a_decode_step_verifies_moves_and_drafts_a_tree(branches: tuple[int, ...]) -> None:
    program, tree = step(branches), DraftTree(branches)
    names = program.main.input_types
    caches = [name for name in names if name.startswith("cache.0.")]
    assert ops(program, VerifyTree) == [VerifyTree(tree.parents)]
    assert ops(program, MoveEntries) == [MoveEntries(tree.drafts + 1, len(caches))]
    assert ops(program, AlignDrafts) == [AlignDrafts(tree.depth, 128, tree.drafts + 1)]
    assert ops(program, AdvanceRequests) == [AdvanceRequests(tree.drafts, 128, tree.parents)]
    assert ops(program, BranchDrafts) == [BranchDrafts(d, b) for d, b in enumerate(branches)]
    assert ops(program, SampleTokens) == [SampleTokens()]
    assert not ops(program, SampleDrafts) + ops(program, VerifyDrafts)
    seen = [isinstance(op, RaggedAttention) and op.tree for op in ops(program, RaggedAttention)]
    assert seen.count(True) == 1  # the main model has one layer
    assert "ancestors" in names
    assert not {"draft_ids", "draft_probs"} & names.keys()


def test_outputs_behind_the_results_are_the_inputs_that_change() -> None:
    main = step((2, 1)).main
    kinds = list(main.input_types.items())
    changed = ("token_ids", "positions", "slots", "state", "emitted", "step", "recent")
    names = [*changed, *(name for name, _ in kinds if name.startswith("cache."))]
    order = [name for name, _ in kinds if name in names]
    assert list(main.output_types[2:]) == [main.input_types[name] for name in order]


def test_a_prefill_keeps_hidden_states_for_one_depth_with_branches() -> None:
    names = step((2,), "prefill").main.input_types
    assert {"hidden_slots", "cache.hidden"} <= names.keys()
    assert "ancestors" not in names
    assert not {"hidden_slots", "cache.hidden"} & fused_step("prefill", 1).main.input_types.keys()


def swapped_branches(edit: Edit) -> tuple[Op, list[Value]]:
    first, *others = edit.operands[13:]
    return edit.op, [*edit.operands[:13], *others, first]


EDITS: dict[str, tuple[type[Op], int, Change, str]] = {
    "the next depth reads a leaf": (
        ShiftTokens,
        0,
        reads_result(3, BranchDrafts, 0, 1),
        "token behind the last row of depth 1",
    ),
    "nodes in another order": (AdvanceRequests, 0, swapped_branches, "verifies other drafts"),
    "aligned by the last rows": (
        AlignDrafts,
        0,
        reads_result(3, VerifyTree, 0, 1),
        "aligned by other tensors",
    ),
    "other tokens verified": (VerifyTree, 0, reads(0, "slots"), "other tokens are verified"),
    "drawn behind another token": (
        BranchDrafts,
        1,
        reads_result(3, VerifyTree, 0, 2),
        "drawn behind another token",
    ),
    "drawn as another depth": (
        BranchDrafts,
        1,
        lambda edit: (BranchDrafts(0, 1), edit.operands),
        "drawn from logits of another depth",
    ),
}


@pytest.mark.parametrize("name", EDITS)
def test_steps_changed_by_hand_are_refused(name: str) -> None:
    kind, number, change, reason = EDITS[name]
    program = edited(step((2, 1)), kind, number, change)
    with pytest.raises(GraphError) as caught:
        check_shifted_convention(program)
    assert caught.value.code == "shifted-convention"
    assert reason in caught.value.reason


def test_passes_with_branches_are_described_and_made_again() -> None:
    for made in (CloseStep("decode", 2, (3, 1)), FuseMtp((step((2,)),), branches=(2,))):
        form = describe_pass(made)
        plain = PassForm(form.name, form.code, json.loads(json.dumps(dict(form.parameters))))
        again = restore_pass(plain)
        assert isinstance(again, type(made))
        assert again.branches == made.branches


def test_draft_rows_that_are_those_of_the_tree_are_refused() -> None:
    def verified(edit: Edit) -> tuple[Op, list[Value]]:
        return VerifyTree((-1, 0)), edit.operands

    with pytest.raises(GraphError, match="rows of drafts are those of a tree"):
        check_shifted_convention(edited(fused_step("decode", 1), VerifyDrafts, 0, verified))


def test_entries_of_draft_layers_are_not_moved() -> None:
    def moves_drafts(edit: Edit) -> tuple[Op, list[Value]]:
        edit.operands[:2] = [edit.inputs[f"cache.draft.0.{i}"] for i in range(2)]
        return edit.op, edit.operands

    with pytest.raises(GraphError, match="its rows are a chain"):
        check_shifted_convention(edited(step((2, 1)), MoveEntries, 0, moves_drafts))
