"""Functions of the model: of the program, and of fused operations."""

from collections import Counter

import onnx

from ascendfx.ir import ops
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.text.parser import parse_program
from tests.passes.load_program import load

LATENT = "latent_attention"


def test_each_function_of_the_program_is_written_once() -> None:
    model = to_onnx(load(LATENT))
    program = [f for f in model.functions if f.domain == "ascendfx.program"]
    assert [f.name for f in program] == ["layer"]
    assert list(program[0].input) == ["hidden", "cos", "sin", "q", "kv_a", "gain", "kv_b", "o"]
    calls = [node for node in model.graph.node if node.op_type == "layer"]
    assert [node.input[3] for node in calls] == ["0.q", "1.q"]


def test_fused_operations_are_functions_and_one_body_serves_equal_uses() -> None:
    model = to_onnx(load(LATENT))
    names = [f.name for f in model.functions if f.domain == "ascendfx.ops"]
    # Two shapes are rotated (two heads, one head) and two are normed (hidden, latent).
    assert sorted(names) == ["attention", "rms_norm", "rms_norm_1", "rotary", "rotary_1"]
    text = load(LATENT)
    uses = Counter(type(node.op) for graph in text.graphs for node in graph.nodes)
    assert uses[ops.RmsNorm] + uses[ops.Rotary] + uses[ops.Attention] == 5


def test_equal_operations_of_different_attributes_are_different_functions() -> None:
    model = to_onnx(
        parse_program(
            'graph @g {\n  %0 = input "x" : f32[n, 4]\n  %1 = param "g" : f32[4]\n'
            "  %2 = rms_norm %0, %1 {eps=1e-06} : f32[n, 4]\n"
            "  %3 = rms_norm %2, %1 {eps=1e-05} : f32[n, 4]\n"
            "  %4 = rms_norm %3, %1 {eps=1e-06} : f32[n, 4]\n  return %4\n}\n"
        )
    )
    assert [node.op_type for node in model.graph.node[:3]] == ["rms_norm", "rms_norm_1", "rms_norm"]
    assert [f.doc_string for f in model.functions] == [
        "RmsNorm(eps=1e-06) of f32[n, 4], f32[4]",
        "RmsNorm(eps=1e-05) of f32[n, 4], f32[4]",
    ]


def test_nodes_of_the_standard_domain_are_all_there_is() -> None:
    known = {"", "ascendfx.ops", "ascendfx.program"}
    model = to_onnx(load("captured/v3yarn_f32"))
    nodes = [*model.graph.node, *(node for f in model.functions for node in f.node)]
    assert {node.domain for node in nodes} <= known
    assert not [n for n in nodes if n.domain == "" and not onnx.defs.has(n.op_type)]


def test_nodes_say_where_the_model_asked_for_them() -> None:
    model = to_onnx(load(LATENT))
    (norm,) = (node for node in model.graph.node if node.op_type.startswith("rms_norm"))
    assert norm.name == "rms_norm_12"
    assert norm.doc_string == "latent_attention.ir:15"


def test_the_same_program_gives_the_same_bytes() -> None:
    first, second = (to_onnx(load("captured/v2_bf16")).SerializeToString() for _ in range(2))
    assert first == second
