"""Cut a graph so that each part is kernels as a whole; what cannot be lowered stays eager."""

import copy
from collections.abc import Collection, Mapping

from torch import Tensor
from torch._ops import OpOverload
from torch.fx import GraphModule, Node
from torch.fx.passes.infra.partitioner import CapabilityBasedPartitioner
from torch.fx.passes.operator_support import OperatorSupportBase

from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.capture.aten import HANDLERS
from ascendfx.ir.capture.translate_function import internal_error, location_of_call
from ascendfx.ir.capture.visit_calls import name_of_call
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.torch_backend.compile_subgraph import (
    CompiledSubgraph,
    Lowered,
    lower_subgraph,
    token_rows,
)
from ascendfx.runtime.torch_backend.odd_formats import odd_formats
from ascendfx.runtime.torch_backend.remarks import remark

_ROUNDS = 100
"""More rounds of cuts than this, and the graph runs eagerly as a whole."""


def compile_parts(
    module: GraphModule, static: Collection[str], executor: str, target: Target
) -> GraphModule:
    """Return the graph with kernels where there are some.

    A part that is refused is cut at the call that was to blame, and tried again.

    Args:
        module: Functional calls of ATen with static shapes.
        static: Placeholders that hold weights.
        executor: ``emulator`` or ``reference``.
        target: The chip.
    """
    eager = set(_untranslated(module))
    weights = {*static, *_constant(module, static)}
    rows = token_rows(
        tuple(node.meta["val"].shape)
        for node in module.graph.find_nodes(op="placeholder")
        if node.name not in weights and isinstance(node.meta.get("val"), Tensor)
    )
    known: dict[tuple[str, ...], Lowered] = {}
    for _ in range(_ROUNDS):
        parts = _fused(module, eager)
        lowered: dict[str, Lowered] = {}
        before = len(eager)
        for call in parts.graph.find_nodes(op="call_module"):
            part = parts.get_submodule(str(call.target))
            if not isinstance(part, GraphModule):
                raise AssertionError("a part is a graph")  # noqa: TRY004
            odd = odd_formats(part)
            if odd:
                error = GraphError(
                    "not-lowered",
                    next(iter(odd.values())),
                    hint="kernels compute in torch.float32 and torch.bfloat16",
                )
                _remark_calls(list(odd), error, part, weights)
                eager.update(odd)
                continue
            key = tuple(node.name for node in part.graph.nodes)
            try:
                found = known.get(key) or lower_subgraph(
                    part, _weights(call, part, weights), rows, target
                )
            except GraphError as error:
                eager.update(_blamed(error, part, weights))
                continue
            except Exception as error:  # noqa: BLE001  # a mistake of ours is told, and costs speed only
                eager.update(_blamed(internal_error(error), part, weights))
                continue
            known[key] = found
            if found.function.plan.launches:
                lowered[str(call.target)] = found
            else:
                eager.update(_calls(part))
        if len(eager) == before:
            return _with_kernels(parts, lowered, executor, target)
    remark("the graph", "not-lowered", f"still refused after {_ROUNDS} cuts")
    return module


def _blamed(error: GraphError, part: GraphModule, weights: Collection[str]) -> list[str]:
    """Return the calls that an error takes out of a part, with a remark if they compute."""
    names = _calls(part)
    blamed = [error.location.module] if error.location.module in names else names
    _remark_calls(blamed, error, part, weights)
    return blamed


def _remark_calls(
    blamed: list[str], error: GraphError, part: GraphModule, weights: Collection[str]
) -> None:
    is_bug = error.code == "internal-error"
    if is_bug or not {*weights, *_views(part)}.issuperset(blamed):
        what = f"`{blamed[0]}`" if len(blamed) == 1 else f"the graph of `{blamed[-1]}`"
        remark(what, error.code, _reason(error), error.__cause__ if is_bug else None)


def _calls(part: GraphModule) -> list[str]:
    return [node.name for node in part.graph.nodes if node.op == "call_function"]


def _untranslated(module: GraphModule) -> list[str]:
    """Return the calls that no builder translates, with a remark for each."""
    found: list[str] = []
    for node in module.graph.nodes:
        name = name_of_call(node) if node.op == "call_function" else ""
        if not name or name == "_operator.getitem" or name in HANDLERS:
            continue
        found.append(node.name)
        reason = f"no translation for `{name}`"
        remark(f"`{node.name}`", "unknown-operation", f"{reason} at {location_of_call(node)}")
    return found


def _constant(module: GraphModule, static: Collection[str]) -> list[str]:
    """Return the calls on weights alone; they run eagerly and their results are weights."""
    found = dict.fromkeys(static)
    calls: list[str] = []
    for node in module.graph.nodes:
        inputs = node.all_input_nodes
        if node.op == "call_function" and inputs and all(each.name in found for each in inputs):
            found[node.name] = None
            calls.append(node.name)
    return calls


def _weights(call: Node, part: GraphModule, static: Collection[str]) -> list[str]:
    inner = part.graph.find_nodes(op="placeholder")
    return [
        own.name
        for own, outer in zip(inner, call.args, strict=True)
        if isinstance(outer, Node) and outer.name in static
    ]


def _views(part: GraphModule) -> list[str]:
    """Return the calls that compute nothing: left alone, they cost nothing."""
    return [
        node.name
        for node in part.graph.nodes
        if isinstance(node.target, OpOverload) and node.target.is_view
    ]


class _Support(OperatorSupportBase):
    def __init__(self, eager: Collection[str]) -> None:
        self._eager = eager

    def is_node_supported(self, submodules: Mapping[str, object], node: Node) -> bool:
        """Return whether a call may be part of a kernel."""
        del submodules
        return node.op == "call_function" and node.name not in self._eager


def _fused(module: GraphModule, eager: Collection[str]) -> GraphModule:
    copied = GraphModule(module, copy.deepcopy(module.graph))
    partitioner = CapabilityBasedPartitioner(
        copied, _Support(eager), allows_single_node_partition=True
    )
    return partitioner.fuse_partitions(partitioner.propose_partitions())


def _with_kernels(
    parts: GraphModule, lowered: Mapping[str, Lowered], executor: str, target: Target
) -> GraphModule:
    for name, found in lowered.items():
        part = parts.get_submodule(name)
        if isinstance(part, GraphModule):
            parts.set_submodule(name, CompiledSubgraph(part, found, executor, target))
    return parts


def _reason(error: GraphError) -> str:
    place = f" at {error.location.file}:{error.location.line}" if error.location.line else ""
    return f"{error.reason}{place}"
