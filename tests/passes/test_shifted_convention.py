"""Steps with fused draft layers keep the convention; steps that were changed by hand do not."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    AdvanceRequests,
    AlignDrafts,
    CacheRead,
    CacheWrite,
    Cast,
    Constant,
    Cos,
    GatherRows,
    Input,
    Linear,
    Multiply,
    Param,
    RaggedAttention,
    Reshape,
    Rotary,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
    Sin,
    VerifyDrafts,
)
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.shifted_convention import check_shifted_convention
from ascendfx.passes.step_inputs import COUNTS, PLACES, decode_controls
from tests.passes.fused_steps import fused_step

ROWS = decode_controls(1)["positions"].shape[0]


@pytest.mark.parametrize("plan", ["decode", "prefill"])
@pytest.mark.parametrize("drafts", [1, 2, 3])
@pytest.mark.parametrize("early", [False, True])
def test_fused_steps_keep_the_convention(plan: str, drafts: int, early: bool) -> None:  # noqa: FBT001
    program = fused_step(plan, drafts, early=early)
    assert check_shifted_convention(program) == drafts
    sizes = {str(node.types[0].shape[0]) for g in program.graphs for node in attentions(g)}
    assert ("requests" in sizes) == early


def attentions(graph: Graph) -> list[Node]:
    return [node for node in graph.nodes if isinstance(node.op, RaggedAttention)]


class Edit(NamedTuple):
    """A place in the entry of a step, as it is rebuilt.

    Attributes:
        builder: Adds nodes before the place.
        op: What stands there.
        operands: What it reads.
        inputs: Of the entry, by name.
        made: Results of the nodes of each operation before the place.
    """

    builder: GraphBuilder
    op: Op
    operands: list[Value]
    inputs: dict[str, Value]
    made: dict[type[Op], list[tuple[Value, ...]]]


Change = Callable[[Edit], tuple[Op, list[Value]]]


def edited(program: Program, kind: type[Op], number: int, change: Change) -> Program:
    """Return the program with another operation or other operands at one place of its entry."""
    main = program.main
    builder = GraphBuilder(main.name)
    moved: dict[Value, Value] = {}
    inputs: dict[str, Value] = {}
    made: dict[type[Op], list[tuple[Value, ...]]] = {}
    for position, node in enumerate(main.nodes):
        op, operands = node.op, [moved[v] for v in node.operands]
        if isinstance(op, kind) and len(made.get(kind, [])) == number:
            op, operands = change(Edit(builder, op, operands, inputs, made))
        results = builder.add_multi(op, *operands)
        made.setdefault(type(op), []).append(results)
        moved.update((Value(position, i), result) for i, result in enumerate(results))
        if isinstance(op, Input):
            inputs[op.name] = results[0]
    return Program(
        (builder.build(*(moved[v] for v in main.outputs)), *program.graphs[1:]), program.recipes
    )


def reads(operand: int, name: str) -> Change:
    """Let one operand be an input of the step."""

    def change(edit: Edit) -> tuple[Op, list[Value]]:
        edit.operands[operand] = edit.inputs[name]
        return edit.op, edit.operands

    return change


def reads_result(operand: int, kind: type[Op], number: int, result: int = 0) -> Change:
    """Let one operand be a result of a node before."""

    def change(edit: Edit) -> tuple[Op, list[Value]]:
        edit.operands[operand] = edit.made[kind][number][result]
        return edit.op, edit.operands

    return change


def one_more(operand: int) -> Change:
    """Add one to an integer operand."""

    def change(edit: Edit) -> tuple[Op, list[Value]]:
        one = edit.builder.add(Constant(1, DType.I32))
        edit.operands[operand] = edit.builder.add(Add(), edit.operands[operand], one)
        return edit.op, edit.operands

    return change


def in_a_tree(edit: Edit) -> tuple[Op, list[Value]]:
    """Let rows of an attention see a set of nodes."""
    assert isinstance(edit.op, RaggedAttention)
    return replace(edit.op, tree=True), [*edit.operands, edit.inputs["slots"]]


def shifts(depth: int, operands: int) -> Change:
    """Let a shift be of another depth, or without the prompt's next tokens."""
    return lambda edit: (ShiftTokens(depth, known=operands > 4), edit.operands[:operands])


def moved_tables(edit: Edit) -> tuple[Op, list[Value]]:
    """Rotate by the position behind that of each row."""
    builder = edit.builder
    params = [builder.op_of(v) for (v,) in edit.made[Param]]
    frequencies = next(
        v
        for (v,), op in zip(edit.made[Param], params, strict=True)
        if isinstance(op, Param) and op.name == "draft.rotary.inv_freq"
    )
    positions = edit.made[AlignDrafts][0][1] if AlignDrafts in edit.made else None
    counted = positions or edit.inputs["positions"]
    behind = builder.add(Add(), counted, builder.add(Constant(1, DType.I32)))
    column = builder.add(Reshape((ROWS, 1)), behind)
    angles = builder.add(Multiply(), builder.add(Cast(DType.F32), column), frequencies)
    shape = builder.type_of(edit.operands[1]).shape
    tables = (builder.add(Reshape(shape), builder.add(op(), angles)) for op in (Cos, Sin))
    return edit.op, [edit.operands[0], *tables]


def main_tables(edit: Edit) -> tuple[Op, list[Value]]:
    """Rotate by the positions of the main model's rows."""
    shape = edit.builder.type_of(edit.operands[1]).shape
    tables = (edit.builder.add(Reshape(shape), edit.made[op][0][0]) for op in (Cos, Sin))
    return edit.op, [edit.operands[0], *tables]


def first_logits(edit: Edit) -> Value:
    """Return the logits of the first draft."""
    kind = edit.builder.type_of(edit.operands[0])
    return next(v for (v,) in edit.made[Linear] if edit.builder.type_of(v) == kind)


def other_kept(edit: Edit) -> list[Value]:
    """Return tables of drafts that are not those of the step."""
    return [edit.builder.add(Cast(edit.builder.type_of(v).dtype), v) for v in edit.operands[8:]]


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
