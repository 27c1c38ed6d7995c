"""Visit the calls of an fx graph in order and look the builder of each up in a table."""

from collections.abc import Callable
from typing import Any

import torch
from torch._ops import OpOverload
from torch.fx import Node

from ascendfx.ir.capture.aten import HANDLERS
from ascendfx.ir.capture.translation import Result, Translation
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import Location
from ascendfx.ir.tensor_type import TensorType

_NOISE = ("aten._assert", "aten.sym_constrain_range", "aten.sym_size", "_operator.")
"""Calls without a tensor result: checks of PyTorch, and arithmetic on sizes."""

_WITHOUT_MEANING = frozenset(
    {"device", "layout", "pin_memory", "memory_format", "non_blocking", "generator", "copy"}
)


class CallVisitor:
    """Translates calls; whoever uses it puts the values of placeholders into ``values``.

    Attributes:
        values: What each node visited so far became.
    """

    def __init__(self, translation: Translation, locate: Callable[[Node], Location]) -> None:
        self.values: dict[Node, Result] = {}
        self._t = translation
        self._locate = locate

    def call(self, node: Node) -> None:
        """Translate one call.

        Raises:
            GraphError: The operation has no translation, or is used in a way that has none.
        """
        overload = name_of_call(node)
        meta = node.meta.get("val")
        if overload == "_operator.getitem":
            self.values[node] = self.values[node.args[0]][node.args[1]]  # pyright: ignore[reportArgumentType]
        elif isinstance(meta, int | torch.SymInt):
            self._t.overload, self._t.location = overload, self._locate(node)
            self.values[node] = self._t.dim(meta)
        elif node.users and not overload.startswith(_NOISE):
            self._tensor_call(node, overload, meta)

    def _tensor_call(self, node: Node, overload: str, meta: Any) -> None:
        t = self._t
        t.overload, t.location = overload, self._locate(node)
        handler = HANDLERS.get(overload)
        if handler is None:
            raise _unknown(node, overload, t)
        arguments = [self._resolve(each) for each in node.args]
        keywords = {name: self._resolve(each) for name, each in node.kwargs.items()}
        with t.builder.at(t.location):
            self.values[node] = handler(t, self._types(meta), *arguments, **_kept(keywords))

    def _types(self, meta: Any) -> TensorType | list[TensorType]:
        if isinstance(meta, list | tuple):
            return [self._t.type_of_meta(each) for each in meta]
        return self._t.type_of_meta(meta)

    def _resolve(self, argument: Any) -> Any:
        if isinstance(argument, Node):
            return self.values[argument]
        if isinstance(argument, list | tuple):
            return [self._resolve(each) for each in argument]
        return argument


def _kept(keywords: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in keywords.items() if name not in _WITHOUT_MEANING}


def name_of_call(node: Node) -> str:
    """Return the overload that a node calls, as the table of builders names it."""
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
