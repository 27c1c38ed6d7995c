"""A pass as plain data, and back: what a dump says, so that another process can run it again."""

import enum
import sys
from collections.abc import Mapping
from dataclasses import dataclass, fields, is_dataclass
from functools import partial
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.named_object import made, member, named_object, not_importable, path_of
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
    return PassForm(rewrite.name, path_of(kind), _fields(rewrite))


def restore_pass(form: PassForm, *, allow_code: bool = False) -> ProgramPass:
    """Return the pass that the present installation has for ``form``.

    Args:
        form: What a file says; it may come from anybody. Nothing that it names is called but
            constructors of passes and of frozen dataclasses.
        allow_code: Import modules of others that are not imported yet.

    Raises:
        GraphError: Its class or one of its parameters cannot be imported here, may not be, or
            another rule stands where one was.
    """
    try:
        values = {name: _decoded(value, allow_code) for name, value in form.parameters.items()}
    except RecursionError as error:
        raise not_importable(form.code, "its parameters are nested too deep") from error
    return made(form.code, values, allow_code=allow_code, a_pass=True)


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
            return {_CLASS: path_of(type(value)), "member": value.name}
        case tuple() | list():
            return [_encoded(each) for each in value]  # pyright: ignore[reportUnknownVariableType]
        case Mapping() if all(isinstance(key, str) for key in value):  # pyright: ignore[reportUnknownVariableType]
            return {"mapping": {key: _encoded(value[key]) for key in sorted(value)}}  # pyright: ignore[reportUnknownVariableType, reportUnknownArgumentType]
        case _ if is_dataclass(value) and not isinstance(value, type):
            return {_CLASS: path_of(type(value)), "fields": _fields(value)}
        case _:
            return {_OPAQUE: path_of(value if isinstance(value, type) else type(value))}


def _decoded(value: Any, allow_code: bool) -> Any:  # noqa: FBT001  # of a recursion
    def inner(plain: dict[str, Any]) -> dict[str, Any]:
        return {name: _decoded(each, allow_code) for name, each in plain.items()}

    match value:
        case None | bool() | int() | float() | str():
            return value
        case list():
            return tuple(_decoded(each, allow_code) for each in value)  # pyright: ignore[reportUnknownVariableType]
        case {"rule": str(path), **rest}:
            return _rule_at(path, str(rest.get("name", "")), allow_code=allow_code)  # pyright: ignore[reportUnknownArgumentType, reportUnknownMemberType]
        case {"class": str(path), "member": str(name)}:
            return member(path, name, allow_code=allow_code)
        case {"class": str(path), "fields": dict(plain)}:
            return made(path, inner(plain), allow_code=allow_code)  # pyright: ignore[reportUnknownArgumentType]
        case {"mapping": dict(plain)}:
            return inner(plain)  # pyright: ignore[reportUnknownArgumentType]
        case {"program": str(text)}:
            return parse_program(text)
        case {"opaque": str(path)}:
            raise not_importable(path, "a value of this type cannot be written to a file")
        case _:
            raise GraphError(
                "pass-not-importable",
                f"a parameter of the pass is damaged: {str(value)[:60]}",  # pyright: ignore[reportUnknownArgumentType]
                hint="write the file again",
            )


def _rule_at(path: str, name: str, *, allow_code: bool) -> Rule:
    library = {f"{_LIBRARY}:{rule.name}": rule for rule in RULES}
    rule = library[path] if path in library else named_object(path, allow_code=allow_code)
    if not isinstance(rule, Rule):
        raise not_importable(path, "it is no rule")
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
