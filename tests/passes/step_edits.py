"""Changes by hand at one place of a step."""

from collections.abc import Callable
from dataclasses import replace
from typing import NamedTuple

from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    Add,
    AlignDrafts,
    Cast,
    Constant,
    Cos,
    Input,
    Linear,
    Multiply,
    Param,
    RaggedAttention,
    Reshape,
    ShiftTokens,
    Sin,
)
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.step_inputs import decode_controls

ROWS = decode_controls(1)["positions"].shape[0]


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
