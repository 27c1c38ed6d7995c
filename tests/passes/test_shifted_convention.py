"""Steps with fused draft layers keep the convention; steps that were changed by hand do not."""

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    AdvanceRequests,
    AlignDrafts,
    CacheRead,
    CacheWrite,
    GatherRows,
    Input,
    PackRows,
    RaggedAttention,
    Rotary,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
    VerifyDrafts,
)
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import COUNTS
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.shifted_convention import check_shifted_convention
from ascendfx.passes.step_inputs import PLACES, decode_controls
from tests.passes.fused_steps import fused_step
from tests.passes.step_edits import (
    Change,
    Edit,
    edited,
    first_logits,
    in_a_tree,
    main_tables,
    moved_tables,
    one_more,
    other_kept,
    reads,
    reads_result,
    shifts,
)


@pytest.mark.parametrize("plan", ["decode", "prefill"])
@pytest.mark.parametrize("drafts", [1, 2, 3])
@pytest.mark.parametrize("early", [False, True])
def test_fused_steps_keep_the_convention(plan: str, drafts: int, early: bool) -> None:  # noqa: FBT001
    program = fused_step(plan, drafts, early=early)
    assert check_shifted_convention(program) == drafts
    sizes = {str(node.types[0].shape[0]) for g in program.graphs for node in attentions(g)}
    assert ("requests" in sizes) == early


@pytest.mark.parametrize("drafts", [1, 2, 3])
def test_packed_steps_keep_the_convention(drafts: int) -> None:
    program = fused_step("decode", drafts, early=True, packed=True)
    assert check_shifted_convention(program) == drafts
    sizes = [str(node.types[0].shape[0]) for g in program.graphs for node in attentions(g)]
    own = ["rows"] * (drafts - 1)  # all but the last depth, which attends with last rows
    assert sorted(sizes) == sorted(["packed_rows", "requests", *own])


# Of steps whose rows are packed.
PACKED: dict[str, tuple[str, int, type[Op], int, Change, str]] = {
    "other rows packed": ("decode", 1, PackRows, 0, reads(0, "positions"), "are packed"),
    "packed by other places": ("decode", 2, PackRows, 0, reads(2, "token_ids"), "are packed"),
    "other tokens verified": (
        "decode",
        1,
        VerifyDrafts,
        0,
        reads_result(0, PackRows, 0, 1),
        "are verified",
    ),
    "rows start elsewhere": (
        "decode",
        2,
        AlignDrafts,
        0,
        reads_result(6, VerifyDrafts, 0),
        "aligned by",
    ),
    "other requests": ("decode", 1, ShiftTokens, 0, reads_result(2, PackRows, 0, 1), "last row"),
    "other slots": ("decode", 1, CacheWrite, -1, reads_result(1, PackRows, 0, 1), "other slots"),
}


@pytest.mark.parametrize("name", PACKED)
def test_packed_steps_changed_by_hand_are_refused(name: str) -> None:
    plan, drafts, kind, number, change, reason = PACKED[name]
    program = fused_step(plan, drafts, packed=True)
    count = sum(isinstance(node.op, kind) for node in program.main.nodes)
    with pytest.raises(GraphError) as caught:
        check_shifted_convention(edited(program, kind, number % count, change))
    assert caught.value.code == "shifted-convention"
    assert reason in caught.value.reason


def attentions(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if isinstance(node.op, RaggedAttention)]


# Plan, drafts, which node of an operation, how it is changed, and a part of the message.
EDITS: dict[str, tuple[str, int, type[Op], int, Change, str]] = {
    "wrong depth": ("prefill", 2, ShiftTokens, 1, shifts(0, 5), "shift at depth 0"),
    "two shifts at once": ("prefill", 1, ShiftTokens, 0, shifts(0, 4), "next tokens"),
    "no shift": ("prefill", 2, ShiftTokens, 1, reads(0, "token_ids"), "other ids"),
    "other last row": ("prefill", 2, ShiftTokens, 1, reads(1, "logit_positions"), "last row"),
    "other requests": ("prefill", 2, ShiftTokens, 0, reads(2, "slots"), "last row"),
    "other new token": ("prefill", 2, ShiftTokens, 0, reads(3, "logit_rows"), "token behind"),
    "new token of the depth before": (
        "decode",
        3,
        ShiftTokens,
        1,
        lambda edit: (edit.op, [*edit.operands[:3], edit.made[VerifyDrafts][0][2]]),
        "token behind",
    ),
    "unaligned last row": (
        "decode",
        2,
        ShiftTokens,
        0,
        reads_result(1, VerifyDrafts, 0, 1),
        "last row",
    ),
    "ids of the main model": ("prefill", 2, GatherRows, 2, reads(1, "token_ids"), "token behind"),
    "ids of depth 0 at depth 1": (
        "prefill",
        2,
        GatherRows,
        4,
        reads_result(1, ShiftTokens, 0),
        "of depth 1",
    ),
    "other slots": ("decode", 1, CacheWrite, 1, reads(1, "positions"), "other slots"),
    "slots that are not aligned": ("decode", 2, CacheWrite, 3, reads(1, "slots"), "other slots"),
    "slots one further": ("prefill", 2, CacheWrite, 4, one_more(1), "other slots"),
    "one cache of two depths": (
        "decode",
        2,
        CacheWrite,
        3,
        reads_result(0, CacheWrite, 1),
        "written 2 times",
    ),
    "entries of depth 0 at depth 1": (
        "decode",
        2,
        CacheRead,
        2,
        reads_result(0, CacheWrite, 1),
        "several depths",
    ),
    "another block table": ("prefill", 1, CacheRead, 0, one_more(1), "block table"),
    "advanced positions at depth 1": ("decode", 2, RaggedAttention, 1, one_more(-2), "sees tokens"),
    "unaligned positions": (
        "decode",
        2,
        RaggedAttention,
        0,
        reads(-2, "positions"),
        "sees tokens",
    ),
    "other requests in the attention": (
        "decode",
        1,
        RaggedAttention,
        0,
        reads(-1, "token_ids"),
        "sees tokens",
    ),
    "rows of a tree": ("decode", 1, RaggedAttention, 0, in_a_tree, "sees tokens"),
    "rotated by advanced positions": ("decode", 2, Rotary, 2, moved_tables, "that are moved"),
    "keys rotated by advanced positions": ("decode", 1, Rotary, 1, moved_tables, "that are moved"),
    "rotated by the main model's rows": ("decode", 2, Rotary, 1, main_tables, "other positions"),
    "aligned by other tokens": ("decode", 2, AlignDrafts, 0, reads(0, "slots"), "aligned by"),
    "aligned by the new token": (
        "decode",
        2,
        AlignDrafts,
        0,
        reads_result(3, VerifyDrafts, 0, 2),
        "aligned by",
    ),
    "hidden states kept elsewhere": (
        "decode",
        2,
        CacheWrite,
        0,
        reads_result(1, AlignDrafts, 0, 5),
        "not kept",
    ),
    "hidden states of other rows": (
        "decode",
        2,
        GatherRows,
        1,
        reads_result(1, AlignDrafts, 0, 4),
        "looked up",
    ),
    "draft of another row": (
        "decode",
        2,
        GatherRows,
        3,
        reads_result(1, VerifyDrafts, 0, 1),
        "another row",
    ),
    "drawn by the depth before": (
        "decode",
        2,
        SampleDrafts,
        1,
        lambda edit: (edit.op, [first_logits(edit), *edit.operands[1:]]),
        "logits of another depth",
    ),
    "drawn as another depth": (
        "decode",
        2,
        SampleDrafts,
        1,
        lambda edit: (SampleDrafts(0), edit.operands),
        "draft 0 is drawn from logits of another depth",
    ),
    "drawn behind another token": (
        "decode",
        1,
        SampleDrafts,
        0,
        reads_result(4, VerifyDrafts, 0, 2),
        "behind another token",
    ),
    "kept beside the depth before": ("decode", 2, SampleDrafts, 1, reads(5, "draft_ids"), "kept"),
    "chosen by what is not kept": (
        "decode",
        1,
        SampleTokens,
        0,
        lambda edit: (edit.op, [*edit.operands[:8], *other_kept(edit)]),
        "other drafts",
    ),
    "other drafts verified next": (
        "decode",
        2,
        AdvanceRequests,
        0,
        lambda edit: (edit.op, [*edit.operands[:12], *edit.operands[:11:-1]]),
        "verifies other drafts",
    ),
    "other tokens verified": ("decode", 1, VerifyDrafts, 0, reads(0, "slots"), "are verified"),
}


def chosen_otherwise(operand: int, name: str, result: int) -> Change:
    """Let one operand be a control tensor of other rows than the last ones."""

    def change(edit: Edit) -> tuple[Op, list[Value]]:
        ids = edit.made[VerifyDrafts][0][result]
        edit.operands[operand] = edit.builder.add(GatherRows(), edit.inputs[name], ids)
        return edit.op, edit.operands

    return change


# Of steps in which only last rows attend at the last depth.
LAST_ROWS: dict[str, tuple[str, int, type[Op], int, Change, str]] = {
    "positions of other rows": (
        "decode",
        1,
        RaggedAttention,
        0,
        chosen_otherwise(-2, "positions", 0),
        "sees tokens",
    ),
    "requests of other rows": (
        "decode",
        1,
        RaggedAttention,
        0,
        chosen_otherwise(-1, "row_request", 0),
        "sees tokens",
    ),
    "slots for positions": (
        "decode",
        1,
        RaggedAttention,
        0,
        chosen_otherwise(-2, "slots", 1),
        "sees tokens",
    ),
    "unaligned positions of last rows": (
        "decode",
        2,
        RaggedAttention,
        1,
        chosen_otherwise(-2, "positions", 1),
        "sees tokens",
    ),
}


@pytest.mark.parametrize("name", [*EDITS, *LAST_ROWS])
def test_steps_changed_by_hand_are_refused(name: str) -> None:
    plan, drafts, kind, number, change, reason = {**EDITS, **LAST_ROWS}[name]
    program = edited(fused_step(plan, drafts, early=name in LAST_ROWS), kind, number, change)
    with pytest.raises(GraphError) as caught:
        check_shifted_convention(program)
    assert caught.value.code == "shifted-convention"
    assert reason in caught.value.reason


def test_rejected_drafts_must_not_stay_in_caches() -> None:
    builder = GraphBuilder("main")
    kinds = {**decode_controls(2), COUNTS: TensorType(DType.I32, (PLACES, 11))}
    given = {name: builder.add(Input(name, kind)) for name, kind in kinds.items()}
    ids, requests = given["token_ids"], given["row_request"]
    accepted, last, new = builder.add_multi(VerifyDrafts(2), ids, ids, given["state"])
    first = builder.add(ShiftTokens(0), ids, last, requests, new)
    second = builder.add(ShiftTokens(1), first, last, requests, new)
    names = ("token_ids", "positions", "slots", "block_table", "state", "stop_ids")
    advanced = builder.add_multi(
        AdvanceRequests(2),
        *(given[name] for name in names),
        accepted,
        new,
        given["emitted"],
        given["step"],
        given[COUNTS],
        given["options"],
        new,
        new,
    )
    with pytest.raises(GraphError, match="rejected drafts stay"):
        check_shifted_convention(Program((builder.build(second, *advanced),)))
