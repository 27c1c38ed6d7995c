"""The judgement: a model in ONNX Runtime computes what our operations mean."""

from collections.abc import Mapping, Sequence

import numpy as np
import onnx

from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.onnx.export_program import to_onnx
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import (
    Cast,
    Constant,
    Input,
    Param,
    Sigmoid,
    Silu,
    Swiglu,
)
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.rounding_bound import bounded_step, rounding_bound
from tests.onnx.flatten_program import flatten_program
from tests.onnx.onnx_session import run_model

_LOGISTIC = 5 * 2.0**-53
"""Error of the logistic function of ONNX Runtime, which is a rational approximation of tanh."""

FLOAT32 = 2.0 ** (53 - 24)
"""Unit roundoff of float32 in units of float64's."""


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
    program: Program,
    tensors: Mapping[str, Array],
    sizes: Mapping[str, int] | None = None,
    *,
    float_dtype: DType | None = DType.F64,
) -> None:
    """Assert that every node, given the operands ONNX Runtime computed, agrees.

    Bounds of whole models are useless, because the worst case grows with every layer. So each
    node is judged by its own bound, in a copy of the program without functions, and the program
    with functions must return the very same numbers as the copy.

    Args:
        program: What to judge.
        tensors: Inputs and weights.
        sizes: Named sizes that no input's shape reveals.
        float_dtype: Format of all floats; None for the program's own.
    """
    graph, own = flatten_program(program)
    inputs = {**tensors, **size_inputs(sizes)}
    whole = with_wide_outputs(program)
    model = to_onnx(whole, float_dtype=float_dtype)
    onnx.checker.check_model(model, full_check=True)
    outputs = run_model(model, inputs)
    results = run_model(
        to_onnx(with_wide_outputs(Program((graph,))), float_dtype=float_dtype), inputs
    )
    for output, result in zip(outputs, results[:own], strict=True):
        np.testing.assert_array_equal(output, result)
    values = dict(zip(graph.outputs[own:], results[own:], strict=True))
    known = {**sizes_of(program, tensors), **(sizes or {})}
    for position, node in enumerate(graph.nodes):
        if not isinstance(node.op, Input | Param):
            operands = [_operand(graph, v, values, float_dtype) for v in node.operands]
            op = node.op.substitute(known)
            formats = [float_dtype or kind.dtype for kind in node.types]
            found = [values[Value(position, i)] for i in range(len(node.types))]
            assert_step_agrees(op, operands, found, formats)


def assert_step_agrees(
    op: Op, operands: Sequence[Array], results: Sequence[Array], formats: Sequence[DType]
) -> None:
    """Assert that one operation agrees: computed in the wide format, rounded once to its own."""
    with np.errstate(all="ignore"):
        expected, bounds = op.reference(*operands), step_bound(op, operands)
    for result, value, bound, dtype in zip(results, expected, bounds, formats, strict=True):
        inner = 2 * bound * (1 if dtype is DType.F64 else FLOAT32)
        unit = 0.0 if dtype is DType.F64 else dtype.unit_roundoff
        magnitude = np.abs(value) if value.dtype.kind == "f" else np.zeros(value.shape)
        with np.errstate(invalid="ignore"):
            tolerance = inner + unit * (magnitude + inner)
        telling = 1e-9 if dtype is DType.F64 else unit + 1e-3
        assert_within(result, value, tolerance, telling=telling)


def with_wide_outputs(program: Program) -> Program:
    """Return the program with narrow outputs converted to f32, which NumPy can hold."""
    main = program.main
    nodes, outputs = list(main.nodes), list(main.outputs)
    for i, value in enumerate(outputs):
        kind = main.type_of(value)
        if kind.dtype in (DType.BF16, DType.F16):
            outputs[i] = Value(len(nodes))
            cast = Cast(DType.F32)
            nodes.append(Node(cast, (value,), cast.infer(kind)))
    graphs = (Graph(main.name, tuple(nodes), tuple(outputs)), *program.graphs[1:])
    return Program(graphs, program.recipes)


def _operand(
    graph: Graph, value: Value, values: Mapping[Value, Array], float_dtype: DType | None
) -> Array:
    """Return what an operation reads in float64; a narrow constant is read as float32."""
    op = graph.op_of(value)
    if isinstance(op, Constant) and (float_dtype or op.dtype) in (DType.BF16, DType.F16):
        return np.asarray(op.value, np.float32).astype(np.float64)
    array = values[value]
    return array.astype(np.float64) if array.dtype.kind == "f" else array


def assert_within(result: Array, value: Array, bound: Array, *, telling: float = 1e-9) -> None:
    """Assert equality where values are not finite or not floats, and closeness elsewhere.

    A bound above ``telling`` times the largest value (at least one) would prove nothing.
    """
    assert result.shape == value.shape
    if value.dtype.kind != "f":
        np.testing.assert_array_equal(result, value)
        return
    finite = np.isfinite(value)
    np.testing.assert_array_equal(result[~finite], value[~finite])
    largest = np.maximum(1, np.max(np.abs(value[finite]), initial=0))
    assert np.all(bound[finite] <= telling * largest), "choose calmer tensors"
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
    first, *others = (error for _, error in bounded_step(op, *operands))
    return first + _LOGISTIC * _behind_logistic(op, values), *others


def _behind_logistic(op: Op, values: Sequence[Array]) -> Array:
    """Return what ONNX Runtime's logistic function is multiplied by: its error is absolute."""
    match op:
        case Sigmoid():
            return np.ones(values[0].shape)
        case Silu():
            return np.abs(values[0])
        case Swiglu():
            return np.abs(values[0] * values[1])
        case _:
            return np.zeros(())
