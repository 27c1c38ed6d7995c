"""The function that torch.compile calls."""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import torch
from torch import Tensor
from torch._dynamo.backends.common import aot_autograd
from torch._ops import OpOverload
from torch.fx import GraphModule, Interpreter
from torch.fx.experimental.proxy_tensor import make_fx
from torch.fx.traceback import preserve_node_meta

from ascendfx.codegen.ascendc.target import Target, find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.start_engine import check_executor
from ascendfx.runtime.torch_backend.partition import compile_parts
from ascendfx.runtime.torch_backend.remarks import remark, summed_up

_OPTIONS = ("executor", "target")


def backend(
    module: GraphModule,
    inputs: Sequence[Any],
    *,
    options: Mapping[str, str] | None = None,
    mode: str | None = None,
) -> Callable[..., Any]:
    """Compile a graph of PyTorch to kernels; parts that cannot be lowered run eagerly.

    Args:
        module: What Dynamo recorded.
        inputs: Fake tensors and sizes, weights among them.
        options: ``target`` (a chip) and ``executor`` (``emulator`` or ``reference``).
        mode: Of torch.compile; it has no meaning here.

    Raises:
        GraphError: An option is unknown.
    """
    del mode
    target, executor = _options(options or {})
    if torch.is_grad_enabled() and any(isinstance(t, Tensor) and t.requires_grad for t in inputs):
        remark(
            "the graph",
            "not-lowered",
            "a gradient is wanted (requires_grad); call it under torch.no_grad()",
        )
        return module.forward
    weights = [_is_weight(each) for each in inputs]

    def inference(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        names = [node.name for node in graph.graph.find_nodes(op="placeholder")]
        static = [n for n, is_weight in zip(names, weights, strict=False) if is_weight]
        return _compiled(graph, static if len(names) == len(weights) else [], executor, target)

    def training(graph: GraphModule, _: Sequence[Any]) -> Callable[..., Any]:
        remark("the graph", "not-lowered", "it computes gradients")
        return graph.forward

    return aot_autograd(fw_compiler=training, inference_compiler=inference)(module, inputs)


def _options(options: Mapping[str, str]) -> tuple[Target, str]:
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise GraphError(
            "unknown-option",
            f"the backend has no option `{unknown[0]}`",
            hint=f"known: {', '.join(_OPTIONS)}",
        )
    executor = options.get("executor", "emulator")
    check_executor(executor)
    return find_target(options.get("target", "ascend910b")), executor


def _is_weight(value: Any) -> bool:
    """Return whether Dynamo says that a tensor belongs to a module."""
    return isinstance(value, torch.nn.Parameter) or bool(
        getattr(value, "_dynamo_static_input_type", None)
    )


def _compiled(
    graph: GraphModule, static: Sequence[str], executor: str, target: Target
) -> Callable[..., Any]:
    reason = _why_eager(graph)
    if reason:
        remark("the graph", "not-lowered", reason)
        return graph.forward
    if not _has_symbols(graph):
        with summed_up():
            return compile_parts(graph, static, executor, target).forward
    known: dict[tuple[Any, ...], Callable[..., Any]] = {}

    def call(*arguments: Any) -> Any:
        shapes = tuple(
            (tuple(each.shape), each.stride()) if isinstance(each, Tensor) else each
            for each in arguments
        )
        if shapes not in known:
            fixed = _with_sizes(graph, arguments)
            places = [node.name for node in graph.graph.find_nodes(op="placeholder")]
            chosen = [i for i, name in enumerate(places) if name in static]
            names = [node.name for node in fixed.graph.find_nodes(op="placeholder")]
            weights = [names[i] for i in chosen]
            with summed_up():
                known[shapes] = compile_parts(fixed, weights, executor, target).forward
        return known[shapes](*arguments)

    return call


def _why_eager(graph: GraphModule) -> str | None:
    """Return why no part of a graph may be replaced: the order of its calls matters."""
    for node in graph.graph.nodes:
        if isinstance(node.target, OpOverload):
            if torch.Tag.nondeterministic_seeded in node.target.tags:
                return f"`{node.target}` draws random numbers"
            if node.target._schema.is_mutable:  # pyright: ignore[reportPrivateUsage]
                return f"`{node.target}` changes a tensor in place"
    return None


def _has_symbols(graph: GraphModule) -> bool:
    for node in graph.graph.find_nodes(op="placeholder"):
        meta = node.meta.get("val")
        if not isinstance(meta, Tensor) or any(isinstance(s, torch.SymInt) for s in meta.shape):
            return True
    return False


def _with_sizes(graph: GraphModule, arguments: Sequence[Any]) -> GraphModule:
    """Return the graph for the sizes of a call."""
    with preserve_node_meta():
        fixed = make_fx(Interpreter(graph).run, tracing_mode="fake")(*arguments)
    fixed.graph.eliminate_dead_code()
    fixed.recompile()
    return fixed
