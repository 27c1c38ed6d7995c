"""Projections of codes as QuantizeLinear and DequantizeLinear, value by value, layer by layer."""

import numpy as np
import onnx
import pytest

from ascendfx.ir import ops
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.onnx.block_programs import block_programs
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.onnx.quantized_products import product_at, rows_at
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.insertion.site_form import SiteForm, SiteLine
from tests.onnx.assert_agrees import assert_step_agrees, assert_within
from tests.onnx.flatten_program import flatten_program
from tests.onnx.onnx_session import run_model
from tests.passes.load_program import load

LINES = (
    SiteLine("*.q", SiteForm()),
    SiteLine("*.kv_a", SiteForm()),
    SiteLine("*.o", SiteForm(bits=4)),
    SiteLine("*experts*", SiteForm(bits=4)),
)
EXPERTS = """graph @main {
  %0 = input "x" : f32[rows, 32]
  %1 = input "ids" : i64[rows, 2]
  %2 = dispatch_experts %1 {experts=4} : i32[2*rows], i32[2*rows], i32[4]
  %3 = gather_rows %0, %2 : f32[2*rows, 32]
  %4 = param "experts.up" : f32[4, 64, 32]
  %5 = grouped_linear %3, %4, %2.2 : f32[2*rows, 64]
  %6 = silu %5 : f32[2*rows, 64]
  %7 = param "experts.down" : f32[4, 32, 64]
  %8 = grouped_linear %6, %7, %2.2 : f32[2*rows, 32]
  return %8
}
"""
U = 2.0**-24


def quantized(program: Program) -> Program:
    return InsertQuantization(LINES).run(program).program


def weights_of(program: Program, seed: int = 0) -> dict[str, Array]:
    random = np.random.default_rng(seed)
    kinds = checkpoint_types(program)
    return {
        key: random.standard_normal(tuple(map(int, kind.shape))).astype(np.float32)
        for key, kind in sorted(kinds.items())
    }


def inputs_of(which: str) -> dict[str, Array]:
    random = np.random.default_rng(5)
    if which == "experts":
        ids = np.array([random.permutation(4)[:2] for _ in range(6)])
        return {"x": random.standard_normal((6, 32)).astype(np.float32), "ids": ids}
    return {"token_ids": random.integers(0, 11, (2, 5))}


def program_of(which: str) -> Program:
    return quantized(parse_program(EXPERTS) if which == "experts" else load("latent_attention"))


def products_of(graph: Graph) -> list[int]:
    return [i for i in range(len(graph.nodes)) if product_at(graph, i)]


def bound_of(graph: Graph, position: int, values: dict[Value, Array]) -> Array:
    """Return how far both sides may be off: roundings of k sums, of three factors and of two."""
    found = product_at(graph, position)
    assert found
    codes, weight, *ends = (values[v].astype(np.int64) for v in found.node.operands)
    length = codes.shape[-1] * (2 if found.digits else 1)
    terms = np.float64(length * 119 * 8)  # of digits: as large as there can be
    if not found.digits:
        (terms,) = found.node.op.reference(np.abs(codes), np.abs(weight), *ends)
    outer = graph.nodes[position]
    inner = graph.nodes[outer.operands[0].node]
    by_row, by_channel = (values[each.operands[1]].astype(np.float64) for each in (inner, outer))
    return (length + 8) * U * terms * by_row * by_channel


@pytest.mark.parametrize("which", ["layers", "experts"])
def test_every_value_agrees(which: str) -> None:
    """The sums of codes are in the same model, and exact: each product is held to them."""
    program = program_of(which)
    tensors = {**inputs_of(which), **weights_of(program)}
    graph, own = flatten_program(program)
    model = to_onnx(graph, qdq=True)
    onnx.checker.check_model(model, full_check=True)
    results = run_model(model, tensors)[own:]
    values = dict(zip(graph.outputs[own:], results, strict=True))
    products = products_of(graph)
    assert len(products) == {"layers": 6, "experts": 2}[which]
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, ops.Input | ops.Param):
            continue
        operands = [values[v] for v in node.operands]
        found = [values[Value(position, i)] for i in range(len(node.types))]
        rows = rows_at(graph, position)
        if rows:
            whole = np.rint(values[rows.numbers] / values[rows.scale])
            assert whole.dtype == np.float32
            np.testing.assert_array_equal(found[0], whole.astype(np.int8))
        elif position in products:
            exact = operands[0].astype(np.float64) * operands[1]
            assert_within(found[0], exact, bound_of(graph, position, values), telling=1e-3)
        else:
            wide = [o.astype(np.float64 if o.dtype.kind == "f" else np.int64) for o in operands]
            sizes = {"batch": 2, "tokens": 5, "rows": 6}
            formats = [kind.dtype for kind in node.types]
            assert_step_agrees(node.op.substitute(sizes), wide, found, formats)


def written(which: str) -> tuple[onnx.ModelProto, Program, dict[str, Array]]:
    """Return a model with its weights in it: of the first layer, or of the experts."""
    program = program_of(which)
    weights = weights_of(program)
    if which == "layers":
        (_, program), _ = block_programs(program)
    return to_onnx(program, weights=weights, qdq=True), program, weights


@pytest.mark.parametrize("which", ["layers", "experts"])
def test_weights_are_codes_with_scales(which: str) -> None:
    """Codes of four bits have half a byte each, and stand for what the recipe makes."""
    model, _, weights = written(which)
    onnx.checker.check_model(model, full_check=True)
    stored = {each.name: each for each in model.graph.initializer}
    names = {"0.q": 8, "0.kv_a": 8, "0.o": 4}
    for name, bits in (names if which == "layers" else {"experts.up": 4}).items():
        codes = stored[f"{name}#codes"]
        assert codes.data_type == {8: onnx.TensorProto.INT8, 4: onnx.TensorProto.INT4}[bits]
        assert name not in stored
        assert len(codes.raw_data) == weights[name].size * bits // 8
        scale = onnx.numpy_helper.to_array(stored[f"{name}#scale"])
        top = np.abs(weights[name].astype(np.float64)).max(-1)
        np.testing.assert_allclose(scale, top / (2 ** (bits - 1) - 1), rtol=2 * U)
        whole = np.rint(weights[name] * (2 ** (bits - 1) - 1) / top[..., None])
        np.testing.assert_array_equal(onnx.numpy_helper.to_array(codes).astype(int), whole)
    standard = {node.op_type for node in model.graph.node if not node.domain}
    assert {"QuantizeLinear", "DequantizeLinear"} <= standard
    assert not [node for node in model.graph.node if node.op_type == "Round"]


@pytest.mark.parametrize("which", ["layers", "experts"])
def test_a_model_of_codes_computes_what_the_program_means(which: str) -> None:
    """Floats against float64: a code of inputs that differs would be off by a 127th of the row."""
    model, program, weights = written(which)
    inputs = inputs_of(which)
    if which == "layers":
        random = np.random.default_rng(8)
        inputs = {
            name: random.standard_normal([{"batch": 2, "tokens": 5}.get(str(s), s) for s in shape])
            for name, shape in ((n, k.shape) for n, k in program.main.input_types.items())
        }
    (expected,) = interpret(program, {**inputs, **weights})
    (result,) = run_model(model, inputs)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_whole_programs_share_functions_of_layers() -> None:
    program = program_of("layers")
    weights = weights_of(program)
    model = to_onnx(program, weights=weights, qdq=True)
    onnx.checker.check_model(model, full_check=True)
    (layer,) = (each for each in model.functions if each.domain == "ascendfx.program")
    kinds = [node.op_type for node in layer.node]
    assert kinds.count("QuantizeLinear") == 2  # hidden states once for both that read them
    assert kinds.count("DequantizeLinear") == 5
    inputs = inputs_of("layers")
    (expected,) = interpret(program, {**inputs, **weights})
    (result,) = run_model(model, inputs)
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())


def test_layers_are_programs_of_their_own() -> None:
    program = load("latent_attention")
    blocks = dict(block_programs(program))
    assert list(blocks) == ["layer.0", "layer.1"]
    assert list(blocks["layer.1"].main.input_types) == ["hidden", "cos", "sin"]
    keys = set(checkpoint_types(blocks["layer.1"]))
    assert keys == {"1.q", "1.kv_a", "1.gain", "1.kv_b", "1.o"}


def test_scales_in_float64_are_refused() -> None:
    with pytest.raises(GraphError, match=r"onnx-format.*scales of f32"):
        to_onnx(program_of("experts"), qdq=True, float_dtype=DType.F64)


def test_codes_of_odd_rows_have_half_a_byte_each_too() -> None:
    text = (
        'graph @main {\n  %0 = input "x" : f32[rows, 5]\n  %1 = param "a.o" : f32[3, 5]\n'
        "  %2 = linear %0, %1 : f32[rows, 3]\n  return %2\n}\n"
    )
    program = quantized(parse_program(text))
    weights = weights_of(program)
    model = to_onnx(program, weights=weights, qdq=True)
    (codes,) = (each for each in model.graph.initializer if each.name == "a.o#codes")
    assert codes.data_type == onnx.TensorProto.INT4
    assert len(codes.raw_data) == 8
    x = np.random.default_rng(3).standard_normal((4, 5)).astype(np.float32)
    (expected,) = interpret(program, {"x": x, **weights})
    (result,) = run_model(model, {"x": x})
    np.testing.assert_allclose(result, expected, rtol=0, atol=1e-5 * np.abs(expected).max())
