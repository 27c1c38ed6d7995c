"""Functions of an ONNX model: one per function of the program, one per kind of operation."""

from collections.abc import Callable, Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from onnx import FunctionProto, OperatorSetIdProto, helper

from ascendfx.ir.diagnostic import GraphError, OpTypeError
from ascendfx.ir.graph import Graph, Node, Value
from ascendfx.ir.onnx.body import Body, Tensor
from ascendfx.ir.onnx.names import Names
from ascendfx.ir.onnx.needs import Formal, Key, Made, NamedSize, Need
from ascendfx.ir.onnx.quantize_dequantize import (
    dequantize_rows,
    dequantize_weight,
    one_by_one,
    quantize_rows,
    taken_rows,
)
from ascendfx.ir.onnx.quantized_products import product_at, rows_at
from ascendfx.ir.onnx.translators import TRANSLATIONS
from ascendfx.ir.onnx.used_nodes import used_nodes
from ascendfx.ir.op import Op
from ascendfx.ir.ops.call import Call
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.param import Param
from ascendfx.ir.program import Program, expand_recipe
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.text.printer import print_node

OPSET = 21
"""Of the standard domain; the newest that everything here needs is 18 (axes as inputs)."""
OPS_DOMAIN = "ascendfx.ops"
PROGRAM_DOMAIN = "ascendfx.program"


@dataclass(frozen=True, slots=True)
class Function:
    """A function of the model.

    Attributes:
        domain: Of its name.
        name: Called by nodes.
        needs: Inputs behind the operands.
        results: Number of results.
    """

    domain: str
    name: str
    needs: tuple[Need, ...]
    results: int


class FunctionLibrary:
    """Writes graphs and collects the functions that their nodes call.

    Attributes:
        protos: The functions, callees first.
    """

    def __init__(self, program: Program, *, bake: bool, qdq: bool = False) -> None:
        """Begin with no function.

        Args:
            program: Where callees and recipes are found.
            bake: Whether whoever supplies parameters evaluates recipes; else nodes do it.
            qdq: Whether codes are written as QuantizeLinear and DequantizeLinear.
        """
        self._qdq = qdq
        self.protos: list[FunctionProto] = []
        self._program = program
        self._bake = bake
        self._made: dict[object, Function] = {}
        self._names = {OPS_DOMAIN: Names(), PROGRAM_DOMAIN: Names()}

    def write_graph(self, body: Body, graph: Graph, operands: Sequence[Tensor]) -> list[str]:
        """Append the nodes of ``graph`` to ``body`` and return its outputs."""
        inputs = iter(operands)
        values: dict[Value, str] = {}
        for position, node in enumerate(graph.nodes):
            body.label = f"{node.op.mnemonic}_{position}"
            body.remark = str(node.location)
            arguments = [Tensor(values[v], graph.type_of(v)) for v in node.operands]
            match node.op:
                case Input():
                    names: tuple[str, ...] = (next(inputs).name,)
                case Param():
                    names = (self._parameter(body, graph.name, node.op),)
                case Call():
                    names = self._call(body, node.op, arguments)
                case _:
                    with _located(graph, position):
                        known = self._quantized(body, graph, position, values) if self._qdq else ()
                        names = known or self._operation(body, node, arguments)
            for result, (name, kind) in enumerate(zip(names, node.types, strict=True)):
                values[Value(position, result)] = name
                if not isinstance(node.op, Input | Param):
                    body.declare(name, kind)
        return [values[v] for v in graph.outputs]

    def _quantized(
        self, body: Body, graph: Graph, position: int, values: Mapping[Value, str]
    ) -> tuple[str, ...]:
        """Write codes of rows, or a product of codes, as such; return nothing for another node."""

        def tensor(value: Value) -> Tensor:
            return Tensor(values[value], graph.type_of(value))

        rows = rows_at(graph, position)
        if rows:
            return (quantize_rows(body, tensor(rows.numbers), tensor(rows.scale)),)
        found = product_at(graph, position)
        if found is None:
            return ()
        codes, weight, *others = map(tensor, found.node.operands)
        if found.digits:
            numbers, scale = tensor(found.digits.numbers), tensor(found.digits.scale)
            whole = quantize_rows(body, numbers, scale)
            codes = Tensor(whole, TensorType(DType.I8, numbers.shape))
            codes = taken_rows(body, codes, tensor(found.taken)) if found.taken else codes
            weight = one_by_one(body, weight, stored=self._bake)
        x = dequantize_rows(body, codes, tensor(found.scale))
        w = dequantize_weight(body, weight, tensor(found.channels))
        plain = type(found.node.op)()
        return self._operation(body, Node(plain, (), graph.nodes[position].types), (x, w, *others))

    def _parameter(self, body: Body, graph: str, param: Param) -> str:
        recipe = expand_recipe(self._program, graph, param.name)
        entry = graph == self._program.name
        if recipe is None:
            need = Key(param.name, param.type) if entry else Formal(param.name, param.type)
            return body.require(need)
        if self._bake:
            made = Made(graph, param.name, None, param.type)
            return body.require(made if entry else Formal(param.name, param.type))
        return body.once(
            ("recipe", param), lambda: self.write_graph(body, _leaves_of(recipe, graph), ())[0]
        )

    def _call(self, body: Body, call: Call, arguments: Sequence[Tensor]) -> tuple[str, ...]:
        function = self._function_of_graph(self._program.by_name[call.callee])
        return _invoke(body, function, arguments, lambda need: self._supplied(need, call))

    def _supplied(self, need: Need, call: Call) -> Need:
        """Return what a need of the callee is in the caller."""
        if not isinstance(need, Formal):
            return need
        if (call.callee, need.name) in self._program.recipes:
            return Made(call.callee, need.name, call, need.type)
        return Key(call.key_of(need.name), need.type)

    def _operation(self, body: Body, node: Node, arguments: Sequence[Tensor]) -> tuple[str, ...]:
        translation = TRANSLATIONS[type(node.op)]
        if not translation.function:
            return translation.translate(body, node.op, arguments, node.types)
        function = self._function_of_op(node.op, [each.type for each in arguments], node.types)
        return _invoke(body, function, arguments, lambda need: need)

    def _function_of_graph(self, graph: Graph) -> Function:
        def write(body: Body, operands: Sequence[Tensor]) -> Sequence[str]:
            return self.write_graph(body, graph, operands)

        remark = f"graph @{graph.name}"
        kinds = graph.input_types
        return self._define(graph.name, PROGRAM_DOMAIN, graph.name, remark, kinds, write)

    def _function_of_op(
        self, op: Op, kinds: Sequence[TensorType], results: tuple[TensorType, ...]
    ) -> Function:
        def write(body: Body, operands: Sequence[Tensor]) -> Sequence[str]:
            return TRANSLATIONS[type(op)].translate(body, op, operands, results)

        formals = {f"x{i}": kind for i, kind in enumerate(kinds)}
        remark = f"{op} of {', '.join(map(str, kinds))}"
        return self._define((op, *kinds), OPS_DOMAIN, op.mnemonic, remark, formals, write)

    def _define(
        self,
        key: object,
        domain: str,
        wanted: str,
        remark: str,
        formals: Mapping[str, TensorType],
        write: Callable[[Body, Sequence[Tensor]], Sequence[str]],
    ) -> Function:
        if key in self._made:
            return self._made[key]
        body = Body(Names())
        operands = [Tensor(body.names.fresh(name), kind) for name, kind in formals.items()]
        for operand in operands:
            body.operand(operand)
            body.declare(operand.name, operand.type)
        outputs = own_outputs(body, write(body, operands))
        for need, name in body.needs.items():
            if not (self._qdq and need.type.dtype in (DType.I8, DType.I4X2)):  # four bits, perhaps
                body.declare(name, need.type)
        function = Function(
            domain, self._names[domain].fresh(wanted), tuple(body.needs), len(outputs)
        )
        self.protos.append(_proto(function, remark, body, outputs))
        self._made[key] = function
        return function


def own_outputs(body: Body, values: Sequence[str]) -> list[str]:
    """Return ``values`` as outputs: each made by a node of this body, none twice."""
    made = {name for node in body.nodes for name in node.output}
    outputs: list[str] = []
    body.label = "output"
    for value in values:
        own = value in made and value not in outputs
        outputs.append(value if own else body.emit("Identity", value))
    return outputs


def _proto(function: Function, remark: str, body: Body, outputs: Sequence[str]) -> FunctionProto:
    nodes = used_nodes(body.nodes, outputs)
    inputs = body.inputs
    known = {*inputs, *(name for node in nodes for name in node.output)}
    return helper.make_function(
        function.domain,
        function.name,
        inputs,
        list(outputs),
        nodes,
        opset_imports(),
        doc_string=remark,
        value_info=[info for name, info in body.declared.items() if name in known],
    )


def opset_imports() -> list[OperatorSetIdProto]:
    """Return the versions of the standard domain and of our two."""
    versions = {"": OPSET, OPS_DOMAIN: 1, PROGRAM_DOMAIN: 1}
    return [helper.make_opsetid(domain, version) for domain, version in versions.items()]


def _invoke(
    body: Body,
    function: Function,
    arguments: Sequence[Tensor],
    supplied: Callable[[Need], Need],
) -> tuple[str, ...]:
    """Append a node that calls ``function`` and return its results."""
    names = [each.name for each in arguments]
    for need in map(supplied, function.needs):
        size = isinstance(need, NamedSize)
        names.append(body.size(named_size(need.name)) if size else body.require(need))
    return body.emit_multi(function.name, names, function.results, domain=function.domain)


@contextmanager
def _located(graph: Graph, position: int) -> Generator[None]:
    """Turn what an operation cannot do into an error at its place."""
    try:
        yield
    except OpTypeError as error:
        raise GraphError(
            code="onnx-unsupported",
            reason=error.reason,
            location=graph.nodes[position].location,
            excerpt=print_node(graph, position),
            hint=error.hint,
        ) from error


def _leaves_of(recipe: Graph, graph: str) -> Graph:
    return Graph(graph, recipe.nodes, recipe.outputs)
