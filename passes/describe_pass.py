"""A pass as plain data, and back: what a dump says, so that another process can run it again."""

import enum
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial, reduce
from importlib import import_module
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RULES

_LIBRARY = "ascendfx.passes.rules"
_CLASS, _RULE, _PROGRAM, _OPAQUE = "class", "rule", "program", "opaque"


@dataclass(frozen=True, slots=True)
class PassForm:
    """How to make a pass again.

    Attributes:
        name: Its name.
        code: ``module:Class``.
        parameters: Field names and values as JSON holds them; `{"rule": "module:X", "name": ...}`
            is a rule, and the path its name if the module is the library; `{"program": text}` a
            program.
    """

    name: str
    code: str
    parameters: Mapping[str, Any]


def describe_pass(rewrite: ProgramPass) -> PassForm:
    """Return the plain form of a pass."""
    kind = type(rewrite)
    return PassForm(rewrite.name, _path_of(kind), _fields(rewrite))


def restore_pass(form: PassForm) -> ProgramPass:
    """Return the pass that the present installation has for ``form``.

    Raises:
        GraphError: Its class or one of its parameters cannot be imported here, or another rule
            stands where one was.
    """
    kind = _imported(form.code)
    if not isinstance(kind, type) or not issubclass(kind, ProgramPass):
        raise _unknown(form.code, "it is no pass")
    values = {name: _decoded(value) for name, value in form.parameters.items()}
    try:
        return kind(**values)
    except TypeError as error:
        raise _unknown(form.code, f"its parameters changed: {error}") from error


def _fields(value: Any) -> dict[str, Any]:
    return {field.name: _encoded(getattr(value, field.name)) for field in fields(value)}


def _encoded(value: Any) -> Any:
    match value:
        case None | bool() | int() | float() | str():
            return value
        case Program():
            return {_PROGRAM: print_program(value)}
        case Rule():
            return {_RULE: _path_of_rule(value), "name": value.name}
        case enum.Enum():
            return {_CLASS: _path_of(type(value)), "member": value.name}
        case tuple() | list():
            return [_encoded(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case Mapping() if all(isinstance(key, str) for key in value):  # pyright: ignore[reportUnknownVariableType]
            return {"mapping": {key: _encoded(value[key]) for key in sorted(value)}}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {_CLASS: _path_of(type(value)), "fields": _fields(value)}
        case _:
            return {_OPAQUE: _path_of(value if isinstance(value, type) else type(value))}


def _decoded(value: Any) -> Any:
    match value:
        case list():
            return tuple(map(_decoded, value))  # pyright: ignore[reportUnknownArgumentType]
        case {"rule": str(path), **rest}:
            return _rule_at(path, str(rest.get("name", "")))  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        case {"class": str(path), "member": str(member)}:
            return _imported(path)[member]
        case {"class": str(path), "fields": dict(inner)}:
            return _imported(path)(**{name: _decoded(each) for name, each in inner.items()})  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case {"mapping": dict(inner)}:
            return {name: _decoded(each) for name, each in inner.items()}  # pyright: ignore[reportUnknownArgumentType, reportUnknownVariableType]
        case {"program": str(text)}:
            return parse_program(text)
        case {"opaque": str(path)}:
            raise _unknown(path, "a value of this type cannot be written to a file")
        case _:
            return value


def _path_of(kind: type) -> str:
    return f"{kind.__module__}:{kind.__qualname__}"


def _rule_at(path: str, name: str) -> Rule:
    library = {f"{_LIBRARY}:{rule.name}": rule for rule in RULES}
    rule = library[path] if path in library else _imported(path)
    if not isinstance(rule, Rule):
        raise _unknown(path, "it is no rule")
    if rule.name != name:
        raise GraphError(
            "other-rule",
            f"`{path}` is the rule `{rule.name}` here, and was `{name}` when this was written",
            hint="run this with the version of the module that wrote it, or bind the rule to a "
            "name of its own there: the places of a tuple move when it grows",
        )
    return rule


def _path_of_rule(rule: Rule) -> str:
    """Return where a rule can be found again: by its name in the library, else by import.

    A rule of nobody's library is looked for in the module of its right side, also in tuples.
    """
    if any(each is rule for each in RULES):
        return f"{_LIBRARY}:{rule.name}"
    side: Any = rule.rhs
    while isinstance(side, partial):
        side = side.func
    home = getattr(side, "__module__", "")
    module = sys.modules.get(home)
    for name, each in sorted(vars(module).items()) if module else ():
        if each is rule:
            return f"{home}:{name}"
        if isinstance(each, tuple):
            for i, inner in enumerate(each):  # pyright: ignore[reportUnknownVariableType]
                if inner is rule:
                    return f"{home}:{name}.{i}"
    return f"{home}:{rule.name}"


def _imported(path: str) -> Any:
    module, _, name = path.partition(":")
    try:
        return reduce(_member, name.split("."), import_module(module))
    except (ImportError, AttributeError, ValueError, LookupError, TypeError) as error:
        raise _unknown(path, str(error)) from error


def _member(owner: Any, name: str) -> Any:
    return owner[int(name)] if name.isdecimal() else getattr(owner, name)


def _unknown(path: str, why: str) -> GraphError:
    script = path.startswith("__main__:")
    return GraphError(
        "pass-not-importable",
        f"`{path}` cannot be imported here: {why}",
        hint="it was defined in the script that was run: move it to a module, and compile again"
        if script
        else "run the command in the folder of its module, or name that folder in PYTHONPATH",
    )
