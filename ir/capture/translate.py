"""Exported program to graph: visit every call once and look its builder up in a table."""

from collections.abc import Mapping
from hashlib import sha256
from typing import Any

import torch
from torch import Tensor
from torch._ops import OpOverload
from torch.export import ExportedProgram
from torch.export.graph_signature import InputKind, InputSpec, OutputKind
from torch.fx import Node

from ascendfx.ir.capture.aten import HANDLERS
from ascendfx.ir.capture.locate import location_of_node
from ascendfx.ir.capture.translation import ComplexPair, Result, Translation
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.ops.input import Input
from ascendfx.ir.ops.param import Param
from ascendfx.ir.size import Dim, named_size
from ascendfx.ir.tensor_type import TensorType

_NOISE = ("aten._assert", "aten.sym_constrain_range", "aten.sym_size", "_operator.")
"""Calls without a tensor result: checks of PyTorch, and arithmetic on sizes."""


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
        self._values: dict[Node, Result] = {}
        self._specs = {s.arg.name: s for s in exported.graph_signature.input_specs}
        users = exported.graph_signature.user_inputs
        self._axes = dict(zip(users, sizes, strict=True))
        self._t = Translation(GraphBuilder("main"), self._named_sizes())

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
                    self._call(node)
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

    def _call(self, node: Node) -> None:
        overload = _name_of(node)
        meta = node.meta.get("val")
        if overload == "_operator.getitem":
            self._values[node] = self._values[node.args[0]][node.args[1]]  # pyright: ignore[reportArgumentType]
        elif isinstance(meta, int | torch.SymInt):
            self._t.overload, self._t.location = overload, location_of_node(node.meta, self._prefix)
            self._values[node] = self._t.dim(meta)
        elif node.users and not overload.startswith(_NOISE):
            self._tensor_call(node, overload, meta)

    def _tensor_call(self, node: Node, overload: str, meta: Any) -> None:
        t = self._t
        t.overload, t.location = overload, location_of_node(node.meta, self._prefix)
        handler = HANDLERS.get(overload)
        if handler is None:
            raise _unknown(node, overload, t)
        arguments = [self._resolve(each) for each in node.args]
        keywords = {name: self._resolve(each) for name, each in node.kwargs.items()}
        with t.builder.at(t.location):
            self._values[node] = handler(t, self._types(meta), *arguments, **_kept(keywords))

    def _types(self, meta: Any) -> TensorType | list[TensorType]:
        if isinstance(meta, list | tuple):
            return [self._t.type_of_meta(each) for each in meta]
        return self._t.type_of_meta(meta)

    def _resolve(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            return self._values[argument]
        if isinstance(argument, list | tuple):
            return [self._resolve(each) for each in argument]
        return argument


_WITHOUT_MEANING = frozenset(
    {"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "copy"}
)


def _kept(keywords: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if name not in _WITHOUT_MEANING}


def _name_of(node: Node) -> str:
    if node.op == "call_function" and not hasattr(node.target, "overloads"):
        target = node.target
        if isinstance(target, OpOverload):
            return str(target)
        return f"{getattr(target, '__module__', '?')}.{getattr(target, '__name__', target)}"
    return str(node.target)


def _unknown(node: Node, overload: str, t: Translation) -> GraphError:
    return GraphError(
        "unknown-operation",
        f"no translation for `{overload}`",
        t.location,
        excerpt=str(node.format_node()),
        hint=(
            "write the line with operations listed in ir/capture/README.md, "
            "or add a builder for the overload in ir/capture/aten"
        ),
    )


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
