"""What a file names as ``module:name``, found without running what its writer wants to run."""

import enum
import sys
from collections.abc import Mapping
from dataclasses import is_dataclass
from functools import reduce
from importlib import import_module
from types import ModuleType
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.graph_pass import ProgramPass

_OURS = ("ascendfx.ir", "ascendfx.passes", "ascendfx.quant_passes", "ascendfx.codegen")
"""Where passes and their parameters live; importing a module of these does nothing else."""


def path_of(kind: type) -> str:
    """Return ``module:name`` of a class."""
    return f"{kind.__module__}:{kind.__qualname__}"


def named_object(path: str, *, allow_code: bool) -> Any:
    """Return what ``module:name`` names; nothing is called.

    Args:
        path: The module and the name in it, with dots, and numbers for places of tuples.
        allow_code: Import a module that is not of this package and not imported yet, and let a
            module make the name when it is asked. To import is to run: only the user can say that
            the file and the module are trusted.

    Raises:
        GraphError: There is no such thing, or it would have to be imported and may not be.
    """
    module, _, name = path.partition(":")
    home = _module(path, module, allow_code=allow_code)
    try:
        first, *rest = name.split(".")
        lazy = allow_code and first not in vars(home)
        return reduce(_member, rest, getattr(home, first) if lazy else vars(home)[first])
    except (AttributeError, LookupError, TypeError, ValueError) as error:
        raise not_importable(path, f"{module} has no `{name}`") from error


def made(path: str, fields: Mapping[str, Any], *, allow_code: bool, a_pass: bool = False) -> Any:
    """Return a new object of the class that ``path`` names.

    Only values are made: passes, and dataclasses that are frozen. Whatever else a file may name (a
    function, a process, an open file) is refused before it is called.

    Raises:
        GraphError: There is no such class, it is another kind of thing, or refuses the fields.
    """
    kind = named_object(path, allow_code=allow_code)
    if not isinstance(kind, type):
        raise not_importable(path, "it is no pass" if a_pass else "it is no class")
    if not issubclass(kind, ProgramPass) and (a_pass or not _is_value(kind)):
        raise not_importable(path, "it is no pass" if a_pass else "it is no frozen dataclass")
    try:
        return kind(**fields)
    except Exception as error:  # whatever the constructor of a user raises
        raise not_importable(path, f"its parameters changed: {error}") from error


def member(path: str, name: str, *, allow_code: bool) -> enum.Enum:
    """Return a member of the enumeration that ``path`` names.

    Raises:
        GraphError: There is no such enumeration, or it has no such member.
    """
    kind = named_object(path, allow_code=allow_code)
    if not isinstance(kind, enum.EnumType):
        raise not_importable(path, "it is no enumeration")
    if name not in kind.__members__:
        raise not_importable(path, f"it has no member `{name}`")
    return kind.__members__[name]  # pyright: ignore[reportReturnType]


def not_importable(path: str, why: str, hint: str = "") -> GraphError:
    """Return the error for what cannot be found again."""
    if path.startswith("__main__:"):
        hint = "it was defined in the script that was run: move it to a module, and compile again"
    return GraphError(
        "pass-not-importable",
        f"`{path}` cannot be imported here: {why}",
        hint=hint
        or "run the command in the folder of its module, or name that folder in PYTHONPATH",
    )


def _is_value(kind: type) -> bool:
    return is_dataclass(kind) and kind.__dataclass_params__.frozen  # pyright: ignore[reportAttributeAccessIssue, reportUnknownMemberType, reportUnknownVariableType]


def _module(path: str, name: str, *, allow_code: bool) -> ModuleType:
    if (known := sys.modules.get(name)) is not None:
        return known
    ours = any(name == each or name.startswith(f"{each}.") for each in _OURS)
    if not ours and not allow_code:
        raise not_importable(
            path,
            f"`{name}` is code outside of ascendfx, and a file alone does not make it run",
            hint="if you trust the file and that module, repeat the command with --allow-code; in "
            "Python, import the module first",
        )
    try:
        return import_module(name)
    except Exception as error:  # whatever the module of a user raises
        raise not_importable(path, str(error)) from error


def _member(owner: Any, name: str) -> Any:
    """Return a member as it stands: no property and no descriptor is run."""
    if isinstance(owner, tuple):
        return owner[int(name)]  # pyright: ignore[reportUnknownVariableType]
    if isinstance(owner, type):
        return vars(owner)[name]
    raise LookupError(name)
