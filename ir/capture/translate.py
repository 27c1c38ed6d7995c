"""Exported program to graph: visit every call once and look its builder up in a table."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind
from torch.fx import Node

from ascendfx.ir.capture.locate import location_of_node
from ascendfx.ir.capture.translation import ComplexPair, Translation
from ascendfx.ir.capture.visit_calls import CallVisitor
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.param import Param
from ascendfx.ir.size import Dim, named_size


def translate(
    exported: ExportedProgram,
    prefix: str,
    sizes: tuple[tuple[str, ...], ...],
    canonical: Mapping[str, str],
) -> tuple[Graph, dict[str, Tensor]]:
    """Return the graph of an exported program, and the tensors that its code wrote out.

    Constant tensors are parameters whose name tells their contents, so that equal ones in
    different layers are one; those without axes become `Constant` nodes.

    Args:
        exported: After ``run_decompositions({})``.
        prefix: What stands before parameter names and module paths, because the model is wrapped.
        sizes: The names of the axes of each input.
        canonical: The key under which each parameter, by any of its names, is stored.

    Raises:
        GraphError: The model changes one of its tensors, or an operation has no translation.
    """
    _refuse_mutation(exported, prefix)
    return _Visitor(exported, prefix, sizes, canonical).run()


class _Visitor:
    def __init__(
        self,
        exported: ExportedProgram,
        prefix: str,
        sizes: tuple[tuple[str, ...], ...],
        canonical: Mapping[str, str],
    ) -> None:
        self._canonical = canonical
        self._exported = exported
        self._constants: dict[str, Tensor] = {}
        self._prefix = prefix
        self._specs = {s.arg.name: s for s in exported.graph_signature.input_specs}
        users = exported.graph_signature.user_inputs
        self._axes = dict(zip(users, sizes, strict=True))
        self._t = Translation(GraphBuilder("main"), self._named_sizes())
        self._calls = CallVisitor(self._t, lambda node: location_of_node(node.meta, prefix))
        self._values = self._calls.values

    def _named_sizes(self) -> Mapping[str, Dim]:
        table: dict[str, Dim] = {}
        for node in self._exported.graph.find_nodes(op="placeholder"):
            for size, name in zip(
                node.meta["val"].shape, self._axes.get(node.name, ()), strict=False
            ):
                if isinstance(size, torch.SymInt):
                    table[str(size.node.expr)] = named_size(name)
        return table

    def run(self) -> tuple[Graph, dict[str, Tensor]]:
        outputs: tuple[Any, ...] = ()
        for node in self._exported.graph.nodes:
            match node.op:
                case "placeholder":
                    self._placeholder(node)
                case "output":
                    outputs = node.args[0]
                case _:
                    self._calls.call(node)
        results = [self._t.whole(self._values[node]) for node in outputs]
        return self._t.builder.build(*results), self._constants

    def _placeholder(self, node: Node) -> None:
        spec: InputSpec = self._specs[node.name]
        if not node.users and spec.kind is not InputKind.USER_INPUT:
            return
        meta = node.meta["val"]
        if spec.kind is InputKind.USER_INPUT:
            op = Input(node.name, self._t.type_of_meta(meta))
            self._values[node] = self._t.builder.leaf(op)
            return
        if spec.kind is InputKind.CONSTANT_TENSOR:
            self._values[node] = self._constant(str(spec.target))
            return
        name = str(spec.target).removeprefix(self._prefix).removeprefix(".")
        name = self._canonical.get(name, name)
        kind = self._t.type_of_meta(meta)
        if str(meta.dtype).startswith("torch.complex"):
            self._values[node] = ComplexPair(
                *(self._t.builder.leaf(Param(f"{name}.{part}", kind)) for part in ("real", "imag"))
            )
        else:
            self._values[node] = self._t.builder.leaf(Param(name, kind))

    def _constant(self, target: str) -> Value:
        tensor = self._exported.constants[target]
        if not isinstance(tensor, Tensor):
            raise GraphError(
                "unsupported-operation",
                f"`{target}` is no tensor",
                hint="return tensors only, or compute the value outside of the model",
            )
        kind = self._t.type_of_meta(tensor)
        if tensor.ndim == 0:
            return self._t.constant(tensor.item(), kind.dtype)
        contents = bytes(tensor.detach().cpu().contiguous().view(torch.uint8).numpy().tobytes())
        name = f"constant.{sha256(str(kind).encode() + contents).hexdigest()[:16]}"
        self._constants[name] = tensor
        return self._t.builder.leaf(Param(name, kind))


def _refuse_mutation(exported: ExportedProgram, prefix: str) -> None:
    kinds = {
        OutputKind.BUFFER_MUTATION,
        OutputKind.USER_INPUT_MUTATION,
        OutputKind.PARAMETER_MUTATION,
    }
    output = next(iter(exported.graph.find_nodes(op="output")))
    for spec, node in zip(exported.graph_signature.output_specs, output.args[0], strict=True):
        if spec.kind in kinds:
            target = str(spec.target).removeprefix(prefix).removeprefix(".")
            location = location_of_node(node.meta, prefix) if isinstance(node, Node) else None
            raise GraphError(
                "mutation",
                f"the model changes `{target}` in place",
                location or location_of_node({}, prefix),
                hint="return the new value instead of writing it into the tensor",
            )
