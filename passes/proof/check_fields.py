"""What the fields of a rule have to be: a forgotten comma makes a tuple something else."""

from collections.abc import Iterator, Mapping
from dataclasses import fields
from typing import Any, cast

from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.rule import Growth, Precondition, Proof, Rule, Spelling, Values

_SIMPLE: Mapping[str, tuple[type | tuple[type, ...], str]] = {
    "name": (str, "a text"),
    "identity": (str, "a text"),
    "source": (str, "a text"),
    "fidelity": (Fidelity, "a Fidelity"),
    "proof": (Proof, "a Proof"),
    "growth": ((Growth, type(None)), "a Growth"),
    "cyclic": (bool, "a truth value"),
}
_TUPLES: Mapping[str, type] = {"spellings": Spelling, "when": Precondition}
_MAPPINGS: Mapping[str, tuple[type, str]] = {
    "operands": (str, "texts"),
    "below": (str, "texts"),
    "below_by": (str, "texts"),
    "orthogonal": (str, "texts"),
    "minimum": (int, "integers"),
    "values": (Values, "Values"),
}
_FUNCTIONS = ("holes", "derive")


def check_fields(rule: Rule) -> Iterator[str]:
    """Yield which fields hold something else than their type; sides are checked where run."""
    for each in fields(rule):
        value = getattr(rule, each.name)
        if wanted := _wanted(each.name, value):
            found = f"the class {value.__name__}" if isinstance(value, type) else f"{value!r:.60}"
            yield f"its `{each.name}` is {type(value).__name__} {found}, not {wanted}"


def _wanted(name: str, value: Any) -> str:
    """Return what a field should be, if it is not that."""
    if name in _SIMPLE:
        kind, what = _SIMPLE[name]
        return "" if isinstance(value, kind) else what
    if name in _TUPLES:
        kind = _TUPLES[name]
        fits = isinstance(value, tuple) and _all_are(kind, cast("tuple[Any, ...]", value))
        return "" if fits else f"a tuple of {kind.__name__}s: {name}=({kind.__name__}(...),)"
    if name in _MAPPINGS:
        kind, what = _MAPPINGS[name]
        fits = isinstance(value, Mapping) and _maps_to(kind, cast("Mapping[Any, Any]", value))
        return "" if fits else f"a mapping from names to {what}"
    return "a function" if name in _FUNCTIONS and not callable(value) else ""


def _all_are(kind: type, values: tuple[Any, ...]) -> bool:
    return all(isinstance(each, kind) for each in values)


def _maps_to(kind: type, values: Mapping[Any, Any]) -> bool:
    return _all_are(str, tuple(values)) and _all_are(kind, tuple(values.values()))
