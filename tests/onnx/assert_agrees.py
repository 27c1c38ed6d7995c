"""The judgement: a model in ONNX Runtime computes what our operations mean."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import Input, Param
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.rounding_bound import bounded_step, rounding_bound
from tests.onnx.flatten_program import flatten_program
from tests.onnx.onnx_session import run_model


def assert_graph_agrees(
    graph: Graph, tensors: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> None:
    """Assert that a graph in float64 agrees with `interpret` within twice the rounding bound.

    ONNX Runtime takes the same steps as the interpreter, sums in another order: the bound, which
    does not depend on the order, holds for both.
    """
    model = to_onnx(graph, float_dtype=DType.F64)
    onnx.checker.check_model(model, full_check=True)
    with np.errstate(all="ignore"):
        expected = interpret(graph, tensors, sizes=sizes)
        bounds = rounding_bound(graph, tensors, sizes)
    results = run_model(model, {**tensors, **size_inputs(sizes)})
    for result, value, bound in zip(results, expected, bounds, strict=True):
        assert_within(result, value, 2 * bound)


def assert_program_agrees(
    program: Program, tensors: Mapping[str, Array], sizes: Mapping[str, int] | None = None
) -> None:
    """Assert that every node, given the operands ONNX Runtime computed, agrees in float64.

    Bounds of whole models are useless, because the worst case grows with every layer. So each
    node is judged by its own bound, in a copy of the program without functions, and the program
    with functions must return the very same numbers as the copy.
    """
    whole = to_onnx(program, float_dtype=DType.F64)
    onnx.checker.check_model(whole, full_check=True)
    graph, own = flatten_program(program)
    inputs = {**tensors, **size_inputs(sizes)}
    (*outputs,) = run_model(whole, inputs)
    results = run_model(to_onnx(graph, float_dtype=DType.F64), inputs)
    for output, result in zip(outputs, results[:own], strict=True):
        np.testing.assert_array_equal(output, result)
    values = dict(zip(graph.outputs[own:], results[own:], strict=True))
    known = {**sizes_of(program, tensors), **(sizes or {})}
    for position, node in enumerate(graph.nodes):
        if isinstance(node.op, Input | Param):
            continue
        op = node.op.substitute(known)
        operands = [values[v] for v in node.operands]
        with np.errstate(all="ignore"):
            expected, bounds = op.reference(*operands), step_bound(op, operands)
        for i, (value, bound) in enumerate(zip(expected, bounds, strict=True)):
            assert_within(values[Value(position, i)], value, 2 * bound)


def assert_within(result: Array, value: Array, bound: Array, *, vacuous: float = 1e-9) -> None:
    """Assert equality where values are not finite or not floats, and closeness elsewhere."""
    assert result.shape == value.shape
    if value.dtype.kind != "f":
        np.testing.assert_array_equal(result, value)
        return
    finite = np.isfinite(value)
    np.testing.assert_array_equal(result[~finite], value[~finite])
    largest = np.maximum(1, np.max(np.abs(value[finite]), initial=0))
    assert np.all(bound[finite] <= vacuous * largest), (
        "the bound says nothing: choose calmer tensors"
    )
    gap = np.abs(result[finite] - value[finite])
    assert np.all(gap <= bound[finite]), f"{gap.max()} exceeds {bound[finite].max()}"


def size_inputs(sizes: Mapping[str, int] | None) -> dict[str, Array]:
    """Return the model inputs of sizes that no shape reveals."""
    return {f"size.{name}": np.array([size]) for name, size in (sizes or {}).items()}


def sizes_of(program: Program, tensors: Mapping[str, Array]) -> dict[str, int]:
    """Return the named sizes that the shapes of inputs reveal."""
    found: dict[str, int] = {}
    for name, kind in program.main.input_types.items():
        for stated, size in zip(kind.shape, tensors[name].shape, strict=True):
            found.setdefault(str(stated), size)
            assert bind_size(stated, found) == size
    return found


def step_bound(op: Op, values: Sequence[Array]) -> tuple[Array, ...]:
    """Return the error bound of each result of one operation on exact operands."""
    operands = [(value, np.zeros(value.shape)) for value in values]
    return tuple(error for _, error in bounded_step(op, *operands))
