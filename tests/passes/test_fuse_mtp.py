"""Draft layers in the step of the main model: what is built, and what is refused."""

from dataclasses import replace

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops import (
    AdvanceRequests,
    AlignDrafts,
    Argmax,
    CacheWrite,
    Call,
    GatherRows,
    Op,
    Param,
    SampleDrafts,
    SampleTokens,
    ShiftTokens,
)
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.close_step import CloseStep
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.expose_hidden import ExposeHidden
from ascendfx.passes.fuse_mtp import FuseMtp
from ascendfx.passes.share_common import ShareCommon

_LAYER = """
graph @layer {
  %0 = input "hidden" : f32[batch, tokens, 8]
  %1 = input "cos" : f32[1, tokens, 2]
  %2 = input "sin" : f32[1, tokens, 2]
  %3 = param "q" : f32[4, 8]
  %4 = linear %0, %3 : f32[batch, tokens, 4]
  %5 = reshape %4 {shape=[<batch>, <tokens>, 1, 4]} : f32[batch, tokens, 1, 4]
  %6 = reshape %1 {shape=[1, <tokens>, 1, 2]} : f32[1, tokens, 1, 2]
  %7 = reshape %2 {shape=[1, <tokens>, 1, 2]} : f32[1, tokens, 1, 2]
  %8 = rotary %5, %6, %7 {interleaved_in=false, interleaved_out=false} : f32[batch, tokens, 1, 4]
  %9 = attention %8, KEY, %5 {parts=1, scale=0.5, causal=true} : f32[batch, tokens, 1, 4]
  %10 = reshape %9 {shape=[<batch>, <tokens>, 4]} : f32[batch, tokens, 4]
  %11 = param "o" : f32[8, 4]
  %12 = linear %10, %11 : f32[batch, tokens, 8]
  %13 = add %0, %12 : f32[batch, tokens, 8]
  return %13
}
"""
_TABLES = """\
  %{0} = param "frequency" : f32[2]
  %{1} = iota {{size=<tokens>, dtype=f32}} : f32[tokens]
  %{2} = reshape %{1} {{shape=[1, <tokens>, 1]}} : f32[1, tokens, 1]
  %{3} = multiply %{2}, %{0} : f32[1, tokens, 2]
  %{4} = cos %{3} : f32[1, tokens, 2]
  %{5} = sin %{3} : f32[1, tokens, 2]
"""
_KEYS = 'keys=[["q", "{0}.q"], ["o", "{0}.o"]]'


def _main(tail: str = "rms_norm %9, %10 {eps=1e-06}") -> Program:
    text = f"""
graph @model {{
  %0 = input "token_ids" : i64[batch, tokens]
  %1 = param "embed" : f32[11, 8]
  %2 = gather_rows %1, %0 : f32[batch, tokens, 8]
{_TABLES.format(*range(3, 9))}\
  %9 = call %2, %7, %8 {{callee="layer", {_KEYS.format("0")}}} : f32[batch, tokens, 8]
  %10 = param "norm" : f32[8]
  %11 = {tail} : f32[batch, tokens, 8]
  %12 = param "head" : f32[11, 8]
  %13 = linear %11, %12 : f32[batch, tokens, 11]
  return %13
}}
{_LAYER.replace("KEY", "%8")}"""
    return DeriveIncrementalForm().run(parse_program(text)).program


def _draft(layer: str = "1", key: str = "%8") -> Program:
    text = f"""
graph @draft {{
  %0 = input "token_ids" : i64[batch, tokens]
  %1 = input "hidden" : f32[batch, tokens, 8]
  %2 = param "embed" : f32[11, 8]
  %3 = gather_rows %2, %0 : f32[batch, tokens, 8]
  %4 = add %1, %3 : f32[batch, tokens, 8]
{_TABLES.format(*range(5, 11))}\
  %11 = call %4, %9, %10 {{callee="layer", {_KEYS.format(layer)}}} : f32[batch, tokens, 8]
  %12 = param "draft_norm" : f32[8]
  %13 = rms_norm %11, %12 {{eps=1e-06}} : f32[batch, tokens, 8]
  %14 = param "head" : f32[11, 8]
  %15 = linear %13, %14 : f32[batch, tokens, 11]
  return %15, %13, %11
}}
{_LAYER.replace("KEY", key)}"""
    return DeriveIncrementalForm().run(parse_program(text)).program


def _closed(kind: str, drafts: int, chaining: str = "post-norm") -> Program:
    exposed = ExposeHidden(chaining).run(_main()).program
    return CloseStep(kind, drafts).run(exposed).program


def _fused(kind: str, drafts: tuple[Program, ...], chaining: str = "post-norm") -> Program:
    step = _closed(kind, len(drafts), chaining)
    fused = FuseMtp(drafts, chaining).run(step).program
    verify_program(fused)
    return ShareCommon().run(fused).program


def _of(graph: Graph, kind: type[Op]) -> list[int]:
    return [i for i, node in enumerate(graph.nodes) if isinstance(node.op, kind)]


def test_one_draft_has_the_rows_of_the_main_model() -> None:
    main = _fused("decode", (_draft(),)).main
    assert not _of(main, AlignDrafts)
    first, second = (main.nodes[i] for i in _of(main, Call))
    names = list(main.input_types)
    # Positions, slots, row_request and block table are the same values in both layers,
    assert first.operands[3:7] == second.operands[3:7]
    assert [main.op_of(v).name for v in first.operands[3:7]] == names[1:5]
    assert first.operands[1:3] == second.operands[1:3]  # and so are rotary tables.
    assert names[-2:] == ["cache.draft.0.0", "cache.draft.0.1"]
    (advance,) = _of(main, AdvanceRequests)
    assert len(main.nodes[advance].operands) == 13


@pytest.mark.parametrize("drafts", [2, 3])
def test_several_drafts_share_rows_that_end_at_the_last_accepted_token(drafts: int) -> None:
    main = _fused("decode", (_draft(),) * drafts).main
    (align,) = _of(main, AlignDrafts)
    calls = [main.nodes[i] for i in _of(main, Call)][1:]
    assert len(calls) == drafts
    for call in calls:
        assert call.operands[3:5] == (Value(align, 1), Value(align, 2))
    assert [main.nodes[i].op for i in _of(main, ShiftTokens)] == [
        ShiftTokens(depth) for depth in range(1, drafts)
    ]
    kept = [i for i in _of(main, CacheWrite) if main.nodes[i].types[0].shape[1] == 2 * drafts + 1]
    assert [main.outputs[-1]] == [Value(i) for i in kept]
    assert len({call.operands[7] for call in calls}) == drafts  # a cache for each depth


@pytest.mark.parametrize("drafts", [1, 2, 3])
def test_drafts_of_a_decode_step_are_drawn_and_kept_in_the_order_of_depths(drafts: int) -> None:
    main = _fused("decode", (_draft(),) * drafts).main
    names = dict(zip(main.input_types, main.inputs, strict=True))
    kept = (names["draft_ids"], names["draft_probs"])
    (sampled,) = _of(main, SampleTokens)
    assert main.op_of(Value(sampled)) == SampleTokens(drafts)
    assert main.nodes[sampled].operands[-4:] == (names["cache.counts"], names["token_ids"], *kept)
    drawn = _of(main, SampleDrafts)
    assert [main.nodes[i].op for i in drawn] == [SampleDrafts(depth) for depth in range(drafts)]
    for i in drawn:
        assert main.nodes[i].operands[-2:] == kept
        kept = (Value(i, 1), Value(i, 2))
    (advance,) = _of(main, AdvanceRequests)
    assert main.nodes[advance].operands[12:] == tuple(map(Value, drawn))
    # In place results stand in the order of the inputs.
    last = ("cache.0.0", "cache.0.1", "cache.counts")
    assert list(names)[-3 - 2 * drafts - (drafts > 1) :][:3] == list(last)
    counts = list(main.input_types).index("cache.counts") - len(names)
    assert main.outputs[counts] == Value(advance, 6)
    assert {*kept} <= {*main.outputs}
    assert not _of(main, Argmax)


def test_a_step_whose_drafts_come_from_nowhere_keeps_nothing_of_them() -> None:
    main = _closed("decode", 2).main
    assert {"draft_ids", "draft_probs"} <= set(main.input_types)
    assert main.op_of(main.outputs[0]) == SampleTokens(2)
    names = dict(zip(main.input_types, main.inputs, strict=True))
    assert not {names["draft_ids"], names["draft_probs"]} & {*main.outputs}
    assert "draft_ids" not in _closed("decode", 0).main.input_types


def test_a_prefill_returns_drafts_and_takes_what_is_known() -> None:
    main = _fused("prefill", (_draft(), _draft())).main
    assert {"known_tokens", "hidden_slots"} <= set(main.input_types)
    assert [str(main.type_of(v)) for v in main.outputs[:4]] == [
        "i32[requests]",
        "f32[requests, 11]",
        "i32[requests]",
        "i32[requests]",
    ]
    assert [main.nodes[i].op for i in _of(main, ShiftTokens)] == [
        ShiftTokens(0, known=True),
        ShiftTokens(1, known=True),
    ]
    counts = main.inputs[list(main.input_types).index("cache.counts")]
    assert counts in main.outputs  # as every cache, though nothing is written
    assert len(_of(main, Argmax)) == 2


def test_equal_drafts_are_stored_once_and_different_ones_apart() -> None:
    same = _fused("decode", (_draft("1"), _draft("1")))
    other = _fused("decode", (_draft("1"), _draft("2")))
    assert [graph.name for graph in same.graphs] == ["model", "layer", "draft_layer"]
    assert [g.name for g in other.graphs] == ["model", "layer", "draft_layer", "draft1_layer"]
    assert len([i for i in _of(same.main, Param) if same.main.nodes[i].op.name == "embed"]) == 1


def test_hidden_states_are_those_that_were_asked_for() -> None:
    main = _fused("decode", (_draft(), _draft()), "pre-norm").main
    (write,) = [i for i in _of(main, CacheWrite) if main.nodes[i].types[0].shape[1] == 5]
    assert isinstance(main.op_of(main.nodes[write].operands[2]), Call)
    again = [main.nodes[i] for i in _of(main, Call)][-1]
    adds = main.nodes[again.operands[0].node]
    assert isinstance(main.op_of(adds.operands[0]), Call)  # not the norm behind it


def test_other_steps_are_refused() -> None:
    closed = CloseStep("decode", 1).run(_main()).program
    with pytest.raises(GraphError, match="expose-hidden"):
        FuseMtp((_draft(),)).run(closed)
    with pytest.raises(GraphError) as refused:
        FuseMtp((_main(),)).run(_closed("decode", 1))
    assert refused.value.code == "no-draft-form"
    with pytest.raises(GraphError) as refused:
        FuseMtp((_draft(),), "elsewhere").run(_closed("decode", 1))
    assert refused.value.code == "unknown-chaining"
    with pytest.raises(GraphError) as refused:
        CloseStep("encode").run(_main())
    assert refused.value.code == "unknown-step"
    with pytest.raises(GraphError) as refused:
        CloseStep().run(closed)
    assert refused.value.code == "no-closed-step"


def test_logits_that_are_no_projection_of_a_norm_have_no_hidden_state() -> None:
    silu = _main("silu %9")
    assert ExposeHidden().run(silu).program.main.outputs
    with pytest.raises(GraphError) as refused:
        ExposeHidden("pre-norm").run(silu)
    assert refused.value.code == "no-hidden-state"


def test_a_layer_that_sees_absolute_positions_is_refused() -> None:
    """Keys that are not rotated make scores depend on where the text begins."""
    with pytest.raises(GraphError) as refused:
        FuseMtp((_draft(key="%5"),)).run(_closed("decode", 1))
    assert refused.value.code.startswith(("draft-", "rotary-"))


def test_chosen_rows_are_gathered_once_per_draft() -> None:
    main = _fused("decode", (_draft(),)).main
    verify = _of(main, AdvanceRequests)[0]
    last = Value(main.nodes[verify].operands[6].node, 1)
    gathers = [main.nodes[i] for i in _of(main, GatherRows)]
    assert sum(node.operands[1] == last for node in gathers) == 1


def test_passes_are_pure() -> None:
    step, draft = _closed("decode", 1), _draft()
    assert FuseMtp((draft,)).run(step).program == FuseMtp((_draft(),)).run(step).program
    assert replace(FuseMtp((draft,))) == FuseMtp((draft,))


@pytest.mark.parametrize("same", [True, False])
def test_a_weight_that_both_derive_in_the_same_way_is_one(*, same: bool) -> None:
    def derived(program: Program, op: str) -> Program:
        recipe = f'graph @r {{\n  %0 = param "frequency" : f32[2]\n  %1 = {op} %0 : f32[2]\n'
        graph = parse_program(f"{recipe}  return %1\n}}\n").main
        return Program(program.graphs, {(program.name, "frequency"): graph})

    step = derived(_closed("decode", 1), "negate")
    draft = derived(_draft(), "negate" if same else "exp")
    fused = FuseMtp((draft,)).run(step).program
    names = {op.name for node in fused.main.nodes if isinstance(op := node.op, Param)}
    assert ("draft.frequency" in names) is not same
    assert len([key for key in fused.recipes if key[0] == "model"]) == 2 - same
