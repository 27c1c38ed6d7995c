"""YAML whose fields are known: every value with its line, unknown ones refused by name."""

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace
from difflib import get_close_matches
from typing import Any, TypeAlias

import yaml

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import Location

Scalar: TypeAlias = str | int | float | bool | None
_TEXTS = ("tag:yaml.org,2002:timestamp", "tag:yaml.org,2002:value")
"""What looks like a date, and ``=``: texts here, and what YAML makes of them may be an error."""
_DEEPEST = 64
_MOST = 1 << 16
"""Values of a file, those that it repeats by name counted each time."""
_LARGEST_COUNT = (1 << 63) - 1


@dataclass(frozen=True, slots=True)
class YamlValue:
    """A value of a file, and the line in which it stands.

    Attributes:
        node: As YAML has it.
        file: Where it stands; for messages only.
        name: What it is called; for messages only.
    """

    node: yaml.Node
    file: str
    name: str

    @property
    def location(self) -> Location:
        """File and line."""
        return Location(self.file, self.node.start_mark.line + 1)

    def called(self, name: str) -> "YamlValue":
        """Return the value under another name."""
        return replace(self, name=name)

    def wrong(self, reason: str, hint: str = "") -> GraphError:
        """Return the error for this value."""
        return GraphError("bad-recipe", reason, self.location, hint=hint)

    @property
    def is_scalar(self) -> bool:
        """Whether it is one value, neither a list nor fields."""
        return isinstance(self.node, yaml.ScalarNode)

    def scalar(self) -> Scalar:
        """Return a text, a number, a truth value or None.

        Raises:
            GraphError: `bad-recipe`: a list, fields, or something else.
        """
        if isinstance(self.node, yaml.ScalarNode):
            if self.node.tag in _TEXTS:
                return str(self.node.value)
            try:
                value: Any = yaml.constructor.SafeConstructor().construct_object(self.node)
            except (yaml.YAMLError, ValueError, LookupError) as error:
                shown = _shown(str(self.node.value))
                raise self.wrong(f"`{self.name}` is {shown}", "leave out what has a `!`") from error
            if value is None or isinstance(value, str | int | float):
                return value
            return str(self.node.value)
        raise self.wrong(f"`{self.name}` is {_kind(self.node)}", "write one value")

    def text(self) -> str:
        """Return a text.

        Raises:
            GraphError: `bad-recipe`.
        """
        value = self.scalar()
        if isinstance(value, str) and value:
            return value
        raise self.wrong(f"`{self.name}` is {_shown(value)}, no text", "put it in quotes")

    def flag(self) -> bool:
        """Return a truth value.

        Raises:
            GraphError: `bad-recipe`.
        """
        value = self.scalar()
        if isinstance(value, bool):
            return value
        raise self.wrong(f"`{self.name}` is {_shown(value)}", "write true or false")

    def number(self) -> float:
        """Return a finite number; ``1e-3`` is one, although YAML 1.1 takes it for a text.

        Raises:
            GraphError: `bad-recipe`.
        """
        value = self.scalar()
        try:
            found = float("nan") if isinstance(value, bool) or value is None else float(value)
        except (ValueError, OverflowError):
            found = float("nan")
        if abs(found) < float("inf"):
            return found
        raise self.wrong(f"`{self.name}` is {_shown(value)}", "write a number")

    def count(self, least: int = 0) -> int:
        """Return a whole number from ``least`` on, of at most 63 bits.

        Raises:
            GraphError: `bad-recipe`.
        """
        value = self.scalar()
        if isinstance(value, int) and not isinstance(value, bool):  # noqa: SIM102
            if least <= value <= _LARGEST_COUNT:
                return value
        raise self.wrong(
            f"`{self.name}` is {_shown(value)}", f"write a whole number from {least} on"
        )

    def chosen(self, known: Collection[str]) -> str:
        """Return one of some words.

        Raises:
            GraphError: `bad-recipe`, with the word that is near.
        """
        value = self.scalar()
        if isinstance(value, str) and value in known:
            return value
        raise self.wrong(
            f"`{self.name}` is {_shown(value)}",
            f"{did_you_mean(str(value), known)}known: {', '.join(known)}",
        )

    def items(self) -> tuple["YamlValue", ...]:
        """Return the members of a list; one value alone is a list of it.

        Raises:
            GraphError: `bad-recipe`: fields.
        """
        if isinstance(self.node, yaml.SequenceNode):
            return tuple(YamlValue(each, self.file, self.name) for each in self.node.value)
        if isinstance(self.node, yaml.ScalarNode):
            return (self,)
        raise self.wrong(f"`{self.name}` has fields and should be a list", "begin lines with `- `")

    def fields(self, known: Collection[str] | None = None) -> "YamlFields":
        """Return named values.

        Args:
            known: The names that there are; None: not known yet.

        Raises:
            GraphError: `bad-recipe`: no fields, one that is not known, or one that comes twice.
        """
        if not isinstance(self.node, yaml.MappingNode):
            raise self.wrong(
                f"`{self.name}` is {_kind(self.node)} and should have fields",
                f"known: {', '.join(known)}" if known else "write `{name: value}`",
            )
        found: dict[str, YamlValue] = {}
        for key, value in self.node.value:
            name = str(key.value) if isinstance(key, yaml.ScalarNode) else _kind(key)
            where = YamlValue(key, self.file, name)
            if known is not None and name not in known:
                near = did_you_mean(name, known)
                raise where.wrong(
                    f"`{self.name}` has no field `{name}`", f"{near}known: {', '.join(known)}"
                )
            if name in found:
                raise where.wrong(f"`{name}` stands twice in `{self.name}`", "leave one out")
            found[name] = YamlValue(value, self.file, name)
        return YamlFields(self, found)


@dataclass(frozen=True, slots=True)
class YamlFields:
    """Named values of a file.

    Attributes:
        owner: What they are the fields of.
        values: By name.
    """

    owner: YamlValue
    values: Mapping[str, YamlValue] = field(default_factory=dict[str, YamlValue])

    def __contains__(self, name: str) -> bool:
        return name in self.values

    def __iter__(self) -> Iterator[str]:
        return iter(self.values)

    def get(self, name: str) -> YamlValue | None:
        """Return a value that may be left out."""
        return self.values.get(name)

    def need(self, name: str) -> YamlValue:
        """Return a value.

        Raises:
            GraphError: `bad-recipe`: it is missing.
        """
        if name in self.values:
            return self.values[name]
        raise self.owner.wrong(f"`{self.owner.name}` lacks `{name}`", f"add `{name}: ...`")


def read_yaml(text: str, file: str, name: str) -> YamlValue:
    """Return the value of a text in YAML; nothing of it is run.

    Raises:
        GraphError: `bad-recipe`: it is no YAML, empty, nested too deeply, or has a value that
            contains itself.
    """
    try:
        node = yaml.compose(text, yaml.SafeLoader)
    except RecursionError as error:
        raise _too_deep(file, name, 1) from error
    except yaml.YAMLError as error:
        mark = getattr(error, "problem_mark", None)
        what = getattr(error, "problem", None) or str(error)
        line = mark.line + 1 if mark else 1
        reason = f"the {name} is no YAML: {' '.join(str(what).split())}"
        hint = "a field is `name: value`, indented by spaces; put patterns with `*` in quotes"
        raise GraphError("bad-recipe", reason, Location(file, line), hint=hint) from error
    if node is None:
        reason = f"the {name} is empty"
        raise GraphError("bad-recipe", reason, Location(file, 1), hint="begin with `sites:`")
    if _count_values(node, file, name, {}, 0) > _MOST:
        reason = f"the {name} has more than {_MOST:,} values"
        raise GraphError("bad-recipe", reason, Location(file, 1), hint="leave out most of `*name`")
    return YamlValue(node, file, name)


def _count_values(
    node: yaml.Node, file: str, name: str, known: dict[int, tuple[int, int]], above: int
) -> int:
    """Return how many values there are in one, and note it beside its depth, by identity."""
    if above > _DEEPEST:  # also where a value contains itself
        raise _too_deep(file, name, node.start_mark.line + 1)
    if isinstance(node, yaml.ScalarNode):
        return 1
    if id(node) in known and known[id(node)][1] >= above:
        return known[id(node)][0]
    parts: list[yaml.Node] = []
    for each in node.value:
        parts += each if isinstance(each, tuple) else (each,)
    count = 1 + sum(_count_values(each, file, name, known, above + 1) for each in parts)
    known[id(node)] = count, above
    return count


def _too_deep(file: str, name: str, line: int) -> GraphError:
    reason = f"values of the {name} are nested more than {_DEEPEST} deep"
    hint = "write it flat; no value can contain itself"
    return GraphError("bad-recipe", reason, Location(file, line), hint=hint)


def did_you_mean(word: str, known: Collection[str]) -> str:
    """Return a question with the nearest of some words, or nothing."""
    near = get_close_matches(word, known, n=1)
    return f"did you mean `{near[0]}`? " if near else ""


def _kind(node: yaml.Node) -> str:
    match node:
        case yaml.SequenceNode():
            return "a list"
        case yaml.MappingNode():
            return "a set of fields"
        case _:
            return f"`{node.value}`"


def _shown(value: Scalar) -> str:
    return "empty" if value is None or value == "" else f"`{str(value)[:60]}`"
