"""Stand-ins for repeated layers, so that the cost of a capture does not grow with depth.

In a run of equal layers only the first two are traced. Each later one is replaced by a module that
checks, while the model runs, that it is called exactly as the second one was, except for the one
tensor that runs through the chain, and that marks its place in the graph. `repeat_layers` turns
the marks into calls of the traced layer's function. A layer that looks at its own index may differ
from the traced ones, so a run is given up when a traced layer reads it.
"""

from collections.abc import Generator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils._pytree import TreeSpec, tree_flatten

from ascendfx.ir.capture.same_structure import LayerList, index_attributes, runs_of_equal_layers


@torch.library.custom_op("ascendfx::repeated_layer", mutates_args=())
def repeated_layer(hidden: Tensor, path: str) -> Tensor:
    """Stand for the layer at ``path``; never computed."""
    del path
    return hidden.clone()


@repeated_layer.register_fake
def _(hidden: Tensor, path: str) -> Tensor:
    del path
    return torch.empty_like(hidden)


class NotAChainError(Exception):
    """The layers of a run are not called alike; they have to be traced one by one."""


@dataclass(frozen=True, slots=True)
class Run:
    """Equal layers of which two are traced.

    Attributes:
        layers: The list they are in.
        indices: Their places in it; at least three.
    """

    layers: LayerList
    indices: range

    @property
    def traced(self) -> tuple[str, str]:
        """Paths of the two traced layers."""
        first, second = self.indices[:2]
        return self.layers.path_of(first), self.layers.path_of(second)

    @property
    def skipped(self) -> tuple[str, ...]:
        """Paths of the others."""
        return tuple(map(self.layers.path_of, self.indices[2:]))


def find_runs(lists: Sequence[LayerList]) -> tuple[Run, ...]:
    """Return the runs of at least three equal layers."""
    return tuple(
        Run(each, indices)
        for each in lists
        for indices in runs_of_equal_layers(each.layers)
        if len(indices) > 2
    )


@dataclass
class _Calls:
    """What the traced layers of a run were called with."""

    arguments: list[tuple[list[Any], TreeSpec]] = field(default_factory=list)
    results: list[Any] = field(default_factory=list)

    def chained(self) -> int:
        """Return the place of the one argument that is the previous layer's result.

        Raises:
            NotAChainError: There is no such argument, or others differ, too.
        """
        if len(self.arguments) != 2 or len(self.results) != 2:
            raise NotAChainError
        (first, shape), (second, shape_too) = self.arguments
        places = [i for i, (a, b) in enumerate(zip(first, second, strict=True)) if not _same(a, b)]
        if shape != shape_too or len(places) != 1 or second[places[0]] is not self.results[0]:
            raise NotAChainError
        return places[0]


def _same(a: Any, b: Any) -> bool:
    if isinstance(a, Tensor) or isinstance(b, Tensor):
        return a is b
    return a is b or bool(type(a) is type(b) and a == b)


class _StandIn(nn.Module):
    def __init__(self, replaced: nn.Module, path: str, calls: _Calls) -> None:
        super().__init__()
        # In a tuple, so that its parameters are not found and traced.
        self._replaced = (replaced,)
        self._path = path
        self._calls = calls

    def __getattr__(self, name: str) -> Any:
        try:
            return super().__getattr__(name)
        except AttributeError:
            return getattr(self.__dict__["_replaced"][0], name)

    def forward(self, *arguments: Any, **keywords: Any) -> Tensor:
        place = self._calls.chained()
        wanted, shape = self._calls.arguments[1]
        given, shape_too = tree_flatten((arguments, keywords))
        if shape != shape_too:
            raise NotAChainError
        if not all(
            _same(a, b) for i, (a, b) in enumerate(zip(given, wanted, strict=True)) if i != place
        ):
            raise NotAChainError
        return repeated_layer(given[place], self._path)


@contextmanager
def shortened(model: nn.Module, runs: Sequence[Run]) -> Generator[None]:
    """Replace all but two layers of each run while the block runs."""
    with ExitStack() as undo:
        for run in runs:
            holder = model.get_submodule(run.layers.path)
            calls = _Calls()
            first, second = (run.layers.layers[index] for index in run.indices[:2])
            watched = index_attributes(first, second)
            for layer in (first, second):
                _watch(layer, watched, undo)
                undo.callback(
                    layer.register_forward_pre_hook(_before(calls), with_kwargs=True).remove
                )
                undo.callback(layer.register_forward_hook(_after(calls)).remove)
            for index in run.indices[2:]:
                layer = run.layers.layers[index]
                undo.callback(setattr, holder, str(index), layer)
                setattr(holder, str(index), _StandIn(layer, run.layers.path_of(index), calls))
        yield


def _watch(layer: nn.Module, attributes: Mapping[str, frozenset[str]], undo: ExitStack) -> None:
    """Let the attributes that hold the layer's index raise when they are read."""

    def read(_module: nn.Module) -> int:
        raise NotAChainError

    for path, names in attributes.items():
        module = layer.get_submodule(path)
        plain = type(module)
        body = {"__module__": plain.__module__, "__qualname__": plain.__qualname__}
        undo.callback(setattr, module, "__class__", plain)
        module.__class__ = type(
            plain.__name__, (plain,), {**body, **{name: property(read) for name in names}}
        )


def _before(calls: _Calls) -> Any:
    def hook(_module: nn.Module, arguments: Any, keywords: Any) -> None:
        calls.arguments.append(tree_flatten((arguments, keywords)))

    return hook


def _after(calls: _Calls) -> Any:
    def hook(_module: nn.Module, _arguments: Any, result: Any) -> None:
        calls.results.append(result)

    return hook
