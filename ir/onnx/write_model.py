"""The ONNX model around the entry graph: its inputs, weights, outputs and functions."""

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from onnx import ModelProto, TensorProto, ValueInfoProto, helper

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.element_format import tensor_proto, value_info
from ascendfx.ir.onnx.function_library import FunctionLibrary, opset_imports
from ascendfx.ir.onnx.names import Names
from ascendfx.ir.onnx.needs import Formal, Key, Made, NamedSize, Need
from ascendfx.ir.onnx.quantize_dequantize import fits_int4, int4_proto, pairs_proto
from ascendfx.ir.onnx.used_nodes import used_nodes
from ascendfx.ir.op import Array
from ascendfx.ir.ops.call import Call
from ascendfx.ir.program import Program, expand_recipe, param_names
from ascendfx.ir.size import product
from ascendfx.ir.tensor_type import DType
from ascendfx.version import VERSION

LARGEST = 2**31 - 2**24
"""Bytes of weights in one model: a protobuf message holds less than 2 GiB, 16 MiB for the rest."""

_IR_VERSION = 10
"""Of the ONNX format; the first with declarations of values inside functions."""


def write_model(
    program: Program, weights: Mapping[str, Array] | None, *, qdq: bool = False
) -> ModelProto:
    """Return a verified program as a model; see `to_onnx`.

    Raises:
        GraphError: As `to_onnx`.
    """
    main = program.main
    library = FunctionLibrary(program, bake=weights is not None, qdq=qdq)
    body = Body(Names(_reserved(program)))
    for name, kind in main.input_types.items():
        body.operand(Tensor(name, kind))
    operands = [Tensor(name, kind) for name, kind in main.input_types.items()]
    results = library.write_graph(body, main, operands)
    _check_names(body)
    outputs = [f"output_{i}" for i in range(len(results))]
    nodes = [
        *body.nodes,
        *(
            helper.make_node("Identity", [value], [output], name=output)
            for value, output in zip(results, outputs, strict=True)
        ),
    ]
    nodes = used_nodes(nodes, outputs)
    made = {name for node in nodes for name in node.output}
    baked = [need for need in body.needs if weights is not None and not isinstance(need, NamedSize)]
    _check_bytes(baked)
    graph = helper.make_graph(
        nodes,
        main.name,
        [*(value_info(each.name, each.type) for each in operands), *_further_inputs(body, baked)],
        [value_info(*pair) for pair in zip(outputs, main.output_types, strict=True)],
        initializer=[
            _initializer(program, need, body.needs[need], weights or {}, qdq=qdq) for need in baked
        ],
        value_info=[info for name, info in body.declared.items() if name in made],
    )
    return helper.make_model(
        graph,
        producer_name="ascendfx",
        producer_version=VERSION,
        ir_version=_IR_VERSION,
        opset_imports=opset_imports(),
        functions=library.protos,
    )


def _reserved(program: Program) -> Iterator[str]:
    """Yield the names that values of the entry graph must leave to inputs and weights."""
    yield from program.main.input_types
    yield from (f"output_{i}" for i in range(len(program.main.outputs)))


def _check_names(body: Body) -> None:
    for need, name in body.needs.items():
        if isinstance(need, Key | NamedSize) and name != need.label:
            raise GraphError(
                code="onnx-name",
                reason=f"`{need.label}` names a weight or size and another value of the model",
                hint="rename the input of the graph",
            )


def _further_inputs(body: Body, baked: Sequence[Need]) -> list[ValueInfoProto]:
    """Return the sizes and, unless they are written into the model, the parameters."""
    return [value_info(name, need.type) for need, name in body.needs.items() if need not in baked]


def _check_bytes(needs: Sequence[Need]) -> None:
    total = sum(int(product(need.type.shape)) * need.type.dtype.bytes for need in needs)
    if total > LARGEST:
        raise GraphError(
            code="onnx-too-large",
            reason=f"the weights take {total} bytes; one ONNX file holds {LARGEST}",
            hint="export without weights: parameters are then inputs named by checkpoint key",
        )


def _initializer(
    program: Program, need: Need, name: str, weights: Mapping[str, Array], *, qdq: bool
) -> TensorProto:
    match need:
        case Key(key=key):
            array = _weight(weights, key)
        case Made(graph=graph, name=formal, call=call):
            array = _evaluated(program, graph, formal, call, weights)
        case Formal() | NamedSize():
            raise AssertionError("the entry graph has no formal parameters")
    if array.shape != need.type.shape:
        raise GraphError(
            "weight-shape",
            f"`{name}` has shape {array.shape}; the program reads {need.type}",
            hint="pass the weights of the checkpoint that the program was captured from",
        )
    if qdq and need.type.dtype is DType.I8 and fits_int4(array):
        return int4_proto(name, array.astype(np.int8))
    if qdq and need.type.dtype is DType.I4X2:
        return pairs_proto(name, array.astype(np.uint8))
    return tensor_proto(name, array, need.type.dtype)


def _evaluated(
    program: Program, graph: str, formal: str, call: Call | None, weights: Mapping[str, Array]
) -> Array:
    recipe = expand_recipe(program, graph, formal)
    if recipe is None:
        raise AssertionError("only parameters with a recipe are made")
    keys = {name: call.key_of(name) if call else name for name in param_names(recipe)}
    return interpret(recipe, {name: _weight(weights, key) for name, key in keys.items()})[0]


def _weight(weights: Mapping[str, Array], key: str) -> Array:
    if key not in weights:
        raise GraphError(
            "missing-tensor",
            f"there is no weight `{key}`",
            hint="pass the weights of the checkpoint that the program was captured from",
        )
    return weights[key]
