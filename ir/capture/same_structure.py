"""Whether two modules of a list do the same thing with parameters of the same shape."""

import functools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from types import MethodType
from typing import Any

import torch
from torch import Tensor, nn

_STRUCTURE = frozenset({"_parameters", "_buffers", "_modules"})
_LIMIT = 8
"""How deep attributes of attributes are compared; deeper ones count as different."""


@dataclass(frozen=True, slots=True)
class LayerList:
    """A list of layers in a model.

    Attributes:
        path: Where the list is.
        layers: Its elements.
    """

    path: str
    layers: tuple[nn.Module, ...]

    def path_of(self, index: int) -> str:
        """Return the path of an element."""
        return f"{self.path}.{index}" if self.path else str(index)


def outermost_lists(model: nn.Module) -> tuple[LayerList, ...]:
    """Return the module lists of ``model`` that are in no other module list."""
    found: list[LayerList] = []
    for path, module in model.named_modules():
        inside = any(path.startswith(f"{outer.path}.") for outer in found)
        if isinstance(module, nn.ModuleList) and not inside:
            found.append(LayerList(path, tuple(module)))
    return tuple(found)


def runs_of_equal_layers(layers: Sequence[nn.Module]) -> list[range]:
    """Return the maximal runs of neighbours with the same structure."""
    runs: list[range] = []
    start = 0
    for index in range(1, len(layers) + 1):
        if index == len(layers) or not _same_module(layers, index - 1, index):
            runs.append(range(start, index))
            start = index
    return runs


def _same_module(layers: Sequence[nn.Module], first: int, second: int) -> bool:
    a, b = (dict(layers[i].named_modules()) for i in (first, second))
    return a.keys() == b.keys() and all(
        _same_parts(a[name], b[name], (first, second)) for name in a
    )


def _same_parts(a: nn.Module, b: nn.Module, indices: tuple[int, int]) -> bool:
    if type(a) is not type(b):
        return False
    for table in ("_parameters", "_buffers"):
        left, right = getattr(a, table), getattr(b, table)
        if left.keys() != right.keys() or not all(
            _same_tensor(left[name], right[name]) for name in left
        ):
            return False
    left, right = ({k: v for k, v in vars(m).items() if k not in _STRUCTURE} for m in (a, b))
    return _same_value(left, right, indices, 0)


def _same_tensor(a: Tensor | None, b: Tensor | None) -> bool:
    if a is None or b is None:
        return a is b
    return a.shape == b.shape and a.dtype == b.dtype


def _same_value(a: Any, b: Any, indices: tuple[int, int], depth: int) -> bool:
    """Compare attributes; a direct one may differ where it is each layer's own index."""
    if a is b:
        return True
    if type(a) is not type(b) or depth > _LIMIT or isinstance(a, Tensor):
        return False
    if isinstance(a, _PLAIN):
        return bool(a == b) or (depth == 1 and _is_index(a, b, indices))
    if isinstance(a, nn.Module):
        return _same_parts(a, b, indices)
    inside = _contents(a), _contents(b)
    if inside[0] is None or inside[1] is None:
        return False
    return inside[0].keys() == inside[1].keys() and all(
        _same_value(inside[0][key], inside[1][key], indices, depth + 1) for key in inside[0]
    )


def _is_index(a: Any, b: Any, indices: tuple[int, int]) -> bool:
    return type(a) is int and type(b) is int and (a, b) == indices


def index_attributes(first: nn.Module, second: nn.Module) -> dict[str, frozenset[str]]:
    """Return the attributes in which two equal layers differ, by path: their indices."""
    others = dict(second.named_modules())
    found: dict[str, frozenset[str]] = {}
    for path, module in first.named_modules():
        twin = vars(others[path])
        found[path] = frozenset(
            name
            for name, value in vars(module).items()
            if type(value) is int and value != twin[name]
        )
    return {path: names for path, names in found.items() if names}


_PLAIN = (bool, int, float, complex, str, bytes, set, frozenset, range, torch.dtype, torch.device)
"""Values that `==` compares completely."""


def _contents(value: Any) -> Mapping[Any, Any] | None:
    """Return what a value is made of; None if that cannot be seen."""
    match value:
        case Mapping():
            return value
        case list() | tuple():
            return dict(enumerate(value))
        case functools.partial():
            return {"func": value.func, "args": value.args, "keywords": value.keywords}
        case MethodType():
            # The object it is bound to is part of the layer, and compared there.
            return {"func": value.__func__}
        case _ if hasattr(value, "__dict__") and not callable(value):
            return vars(value)
        case _:
            return None
