"""Finding out whether a model's forward changes the model itself.

torch.export traces one call. What a forward stores in its module would be lost in the graph, and
the second call would be wrong; so it is refused.
"""

import inspect
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from torch import nn

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN, Location

_NOT_STATE = frozenset({"_parameters", "_modules", "training"})
"""Attributes that say how a module is built; changes of parameters in place are seen elsewhere."""


@dataclass(frozen=True, slots=True)
class State:
    """What the modules of a model held at one time.

    Attributes:
        values: For each module path and attribute, the value, and its parts if it is a container;
            kept, so that identities stay comparable.
    """

    values: Mapping[tuple[str, str], tuple[Any, ...]]


def state_of(model: nn.Module) -> State:
    """Return what the modules hold now."""
    return State(
        {
            (path, name): (value, *_parts(value))
            for path, module in model.named_modules()
            for name, value in _attributes(module)
        }
    )


def refuse_changes(model: nn.Module, before: State) -> None:
    """Check that the modules hold what they held.

    Raises:
        GraphError: An attribute or a buffer was assigned, or a container was changed.
    """
    after = state_of(model).values
    for key in {**before.values, **after}:
        old, new = before.values.get(key, ()), after.get(key, ())
        if len(old) != len(new) or not all(map(_same, old, new)):
            path, name = key
            raise GraphError(
                "mutation",
                f"the forward of the model changes `{f'{path}.' if path else ''}{name}`",
                _place(model.get_submodule(path), path),
                hint=(
                    "compute it from the inputs, or in the constructor; the compiled model keeps "
                    "no state between calls"
                ),
            )


def _attributes(module: nn.Module) -> Iterable[tuple[str, Any]]:
    for name, value in vars(module).items():
        if name == "_buffers":
            yield from value.items()
        elif name not in _NOT_STATE:
            yield name, value


def _parts(value: Any) -> tuple[Any, ...]:
    match value:
        case dict():
            return (*value.keys(), *value.values())
        case list() | tuple() | set():
            return tuple(value)
        case _:
            return ()


def _same(a: Any, b: Any) -> bool:
    return a is b or (isinstance(a, int | float | str) and type(a) is type(b) and a == b)


def _place(module: nn.Module, path: str) -> Location:
    forward = type(module).forward
    try:
        lines, start = inspect.getsourcelines(forward)
        file = inspect.getsourcefile(forward)
    except (OSError, TypeError):
        return Location(UNKNOWN.file, 0, path)
    del lines
    return Location(file or UNKNOWN.file, start, path)
