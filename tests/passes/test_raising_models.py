"""Whole captured models raise completely, compute the same, and no name of theirs is known."""

import re
from collections import Counter
from pathlib import Path

import numpy as np
import pytest

from ascendfx.ir.graph import Graph, GraphBuilder, Node, Value
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.proof.graph_mutants import some_mutants
from ascendfx.passes.proof.random_tensors import random_tensors
from ascendfx.passes.rebuild import rebuild
from ascendfx.passes.registry import RAISE
from tests.passes.captured_models import CAPTURED, captured, raised
from tests.passes.near_misses import check, runs
from tests.strategies.calm_weights import calmed
from tests.strategies.rounding_bound import assert_equal_up_to_rounding

_PASSES = Path(__file__).parents[2] / "passes"
_NAMES = sorted(path.stem for path in CAPTURED.glob("*.ir"))

every_model = pytest.mark.parametrize("name", _NAMES)

_ATTENTION = {"attention": 1, "rotary": 2}
_EXPERTS = {
    "combine_experts": 1,
    "dispatch_experts": 1,
    "gather_rows": 1,
    "grouped_linear": 2,
    "route_topk": 1,
    "swiglu": 2,
}
_LATENT = {**_ATTENTION, "add": 2, "linear": 7, "rms_norm": 3, "swiglu": 1}
_LATENT_LOW_RANK_QUERY = {**_LATENT, "linear": 8, "rms_norm": 4}
_GROUPED_QUERY = {**_ATTENTION, "add": 2, "linear": 7, "rms_norm": 2, "swiglu": 1}
_V2 = (_LATENT, {**_LATENT, **_EXPERTS, "add": 3, "linear": 8})
_V3 = (_LATENT_LOW_RANK_QUERY, {**_LATENT_LOW_RANK_QUERY, **_EXPERTS, "add": 3, "linear": 9})
_EXPECTED = {
    "bundled_bf16": _V3,
    "llama_f32": (_GROUPED_QUERY,),
    "llama_mqa": (_GROUPED_QUERY,),
    "v2_bf16": _V2,
    "v2_f32": _V2,
    "v2_greedy": _V2,
    "v3_halfrope": _V3,
    "v3_yarn_bf16": _V3,
    "v3yarn_f32": _V3,
}
_HEADS = {"llama_f32": [4, 2, 2], "llama_mqa": [4, 1, 1]}
_MOVES = {"cast", "input", "param", "reshape", "slice"}


def operations(graph: Graph) -> dict[str, int]:
    counts = Counter(node.op.mnemonic for node in graph.nodes)
    return {name: count for name, count in counts.items() if name not in _MOVES}


@every_model
def test_every_layer_consists_of_operations_of_the_field(name: str) -> None:
    assert tuple(map(operations, raised(name).graphs[1:])) == _EXPECTED[name]


def with_one_layer(program: Program, callee: str) -> Program:
    """Return the model with a single call of ``callee`` left: bounds grow with every layer."""
    seen: list[str] = []

    def emit(
        _b: GraphBuilder, _position: int, node: Node, operands: tuple[Value, ...]
    ) -> tuple[Value, ...] | None:
        if not isinstance(node.op, Call):
            return None
        seen.append(node.op.callee)
        return None if node.op.callee == callee and seen.count(callee) == 1 else operands[:1]

    graphs = (rebuild(program.main, emit), *program.graphs[1:])
    return Program(graphs, program.recipes).pruned()


@every_model
def test_each_layer_computes_the_same_up_to_rounding(name: str) -> None:
    for layer in captured(name).graphs[1:]:
        before, after = (with_one_layer(each(name), layer.name) for each in (captured, raised))
        tensors = calmed(before, random_tensors(before, seed=0, ids=96))
        assert_equal_up_to_rounding(before, after, tensors, telling=True)


@every_model
def test_the_whole_model_computes_the_same_up_to_rounding(name: str) -> None:
    tensors = random_tensors(captured(name), seed=0, ids=96)
    assert_equal_up_to_rounding(captured(name), raised(name), tensors)


@every_model
def test_a_second_run_changes_nothing(name: str) -> None:
    again, runs_again = run_pipeline(raised(name), RAISE)
    assert again is raised(name)
    assert not any(run.statistics for run in runs_again)


@every_model
def test_no_near_miss_remains(name: str) -> None:
    _, runs_ = run_pipeline(captured(name), RAISE)
    assert not [line for run in runs_ for line in run.remarks]


@every_model
def test_attention_is_causal_and_reads_shared_heads(name: str) -> None:
    for graph in raised(name).graphs[1:]:
        (position,) = (i for i, n in enumerate(graph.nodes) if n.op.mnemonic == "attention")
        node = graph.nodes[position]
        op = node.op
        assert (op.causal, op.masked) == (True, False)  # pyright: ignore[reportAttributeAccessIssue]
        heads = [graph.type_of(v).shape[2] for v in node.operands]
        assert heads == _HEADS.get(name, [heads[0]] * 3 + [1, heads[0]])


def test_attention_in_a_window_keeps_its_mask_and_says_why() -> None:
    path = CAPTURED.parent / "window_attention.ir"
    program, done = run_pipeline(parse_program(path.read_text(encoding="utf-8")), RAISE)
    (op,) = (node.op for node in program.graphs[1].nodes if node.op.mnemonic == "attention")
    assert (op.causal, op.masked) == (False, True)  # pyright: ignore[reportAttributeAccessIssue]
    (remark,) = (line for run in done for line in run.remarks)
    assert "with 17 tokens token 16 adds -3.4028234663852886e+38 for token 0" in remark.text


@every_model
def test_rotary_tables_arrive_at_half_width(name: str) -> None:
    program = raised(name)
    for graph in program.graphs[1:]:
        tables = [kind for kind in graph.input_types.values() if kind.shape[0] == 1]
        rotary = next(node for node in graph.nodes if node.op.mnemonic == "rotary")
        assert [t.shape[-1] for t in tables] == [rotary.types[0].shape[-1] // 2] * 2


@pytest.mark.parametrize("name", ["llama_f32", "v2_f32", "v3yarn_f32"])
@pytest.mark.parametrize("seed", range(4))
def test_a_changed_detail_of_a_layer_is_refused_or_kept(name: str, seed: int) -> None:
    layer = captured(name).graphs[-1]
    tensors = random_tensors(Program((layer,)), seed=0)
    for what, mutant in some_mutants(layer, count=10, seed=seed):
        if not runs(mutant, tensors):
            continue
        after, _ = run_pipeline(Program((mutant,)), RAISE)
        with np.errstate(all="ignore"):
            assert_equal_up_to_rounding(mutant, after, tensors)
        assert what


@pytest.mark.nightly
@pytest.mark.parametrize("name", ["llama_f32", "v2_f32", "v3yarn_f32"])
def test_every_changed_detail_of_a_layer_is_refused_or_kept(name: str) -> None:
    check(Program((captured(name).graphs[-1],)), RAISE)


def test_no_name_of_a_model_occurs_in_the_passes() -> None:
    keys = {key for name in _NAMES for key in re.findall(r'"([\w.]+\.weight)"', _text(name))}
    words = {word for key in keys for word in key.split(".") if "_" in word or "norm" in word}
    assert {"self_attn", "q_proj", "input_layernorm"} <= words
    for path in _PASSES.rglob("*.py"):
        found = words & set(re.findall(r"\w+", path.read_text(encoding="utf-8")))
        assert found <= {"norm"}, f"{path.name} knows {found}"


def _text(name: str) -> str:
    return (CAPTURED / f"{name}.ir").read_text(encoding="utf-8")
