"""A recipe as YAML: what `recipe_of` reads as the same recipe."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.registry import algorithm_named
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm
from ascendfx.quant_passes.formats.registry import format_named
from ascendfx.quant_passes.policy.read_line import RULES
from ascendfx.quant_passes.policy.recipe import Calibration, Recipe, SitePolicy
from ascendfx.quant_passes.scaling.granularity import Granularity, PerBlock, PerGroup
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule

_SPECIAL = set("*&!%@`'\"#{}[],|>?:- \\")


def recipe_text(recipe: Recipe) -> str:
    """Return a recipe as YAML; comments of the file it came from are not known.

    Raises:
        GraphError: `recipe-not-writable`: formats, rules or algorithms that YAML has no words for.
    """
    lines = ["sites:"]
    for line in recipe.lines:
        lines += line_text(line.match, line.policy, draft=line.draft)
    if recipe.cache is not None:
        kept = ", ".join(map(str, sorted(recipe.cache.keep)))
        lines.append(f"kv_cache: {{format: int8, keep_layers: [{kept}]}}")
    lines += _calibration(recipe.calibration)
    return "\n".join(lines) + "\n"


def line_text(
    match: Sequence[str], policy: SitePolicy | None, *, draft: bool = False
) -> tuple[str, ...]:
    """Return the lines of a file that are one line of a recipe.

    Raises:
        GraphError: `recipe-not-writable`.
    """
    found = ["  - match:", *(f"      - {_quoted(pattern)}" for pattern in match)]
    if len(match) == 1:
        found = [f"  - match: {_quoted(match[0])}"]
    if draft:
        found.append("    only: draft")
    if policy is None:
        return (*found, "    keep: true")
    return (*found, *(f"    {name}: {value}" for name, value in _policy(policy).items()))


def _policy(policy: SitePolicy) -> Mapping[str, str]:
    spec, usual = policy.spec, algorithm_named(policy.algorithm.name)
    if format_named(spec.format.name) != spec.format:
        raise _refused(f"format `{spec.format.name}` with options of its own")
    if type(policy.algorithm) is not type(usual):
        raise _refused(f"algorithm `{policy.algorithm.name}` of another class")
    found = {"weight": spec.format.name, "granularity": _granularity(spec.granularity)}
    found |= _rule(spec.rule)
    found["algorithm"] = policy.algorithm.name
    options = _options(policy.algorithm)
    if options:
        found["options"] = "{" + ", ".join(f"{k}: {v}" for k, v in options.items()) + "}"
    found["activation"] = policy.activation or "none"
    return found


def _granularity(granularity: Granularity) -> str:
    match granularity:
        case PerGroup():
            return f"group {granularity.size}"
        case PerBlock():
            return f"block {granularity.rows}x{granularity.columns}"
        case _ if granularity.name in {"channel", "tensor"}:
            return granularity.name
        case _:
            raise _refused(f"scales per {granularity.name}")


def _rule(rule: ScaleRule) -> Mapping[str, str]:
    for name, known in RULES.items():
        if replace(known, symmetric=rule.symmetric, stored=rule.stored) != rule:
            continue
        found = {} if name == "exact" else {"rule": name}
        if rule.symmetric != known.symmetric:
            found["symmetric"] = _value(rule.symmetric)
        if rule.stored != known.stored:
            found["scales"] = rule.stored.value
        return found
    raise _refused("a scale rule of its own")


def _options(algorithm: WeightAlgorithm) -> Mapping[str, str]:
    """Return the options that are not the usual ones."""
    made: Any = algorithm
    if not is_dataclass(made):
        return {}
    usual: Any = algorithm_named(algorithm.name)
    return {
        each.name: _value(getattr(made, each.name))
        for each in fields(made)
        if each.init and getattr(made, each.name) != getattr(usual, each.name)
    }


def _value(value: Any) -> str:
    match value:
        case bool():
            return "true" if value else "false"
        case DType():
            return value.value
        case int() | float():
            return repr(value)
        case str():
            return _quoted(value)
        case tuple():
            return f"[{', '.join(map(_value, value))}]"
        case WeightAlgorithm():
            options = {"algorithm": value.name, **_options(value)}
            return "{" + ", ".join(f"{k}: {v}" for k, v in options.items()) + "}"
        case _:
            raise _refused(f"option {value!r:.60}")


def _calibration(calibration: Calibration) -> Iterator[str]:
    usual = Calibration()
    if calibration == usual:
        return
    yield "calibration:"
    if calibration.texts:
        yield "  texts:"
        for each in calibration.texts:
            file = _quoted(str(each.file.resolve()))
            yield f"    - {{file: {file}, share: {each.share!r}}}"
    for name in ("tokens", "length", "seed"):
        yield f"  {name}: {getattr(calibration, name)}"


def _quoted(text: str) -> str:
    if text and not _SPECIAL & set(text) and text.isascii() and text.isprintable():
        return text
    return "'" + text.replace("'", "''") + "'"


def _refused(what: str) -> GraphError:
    return GraphError(
        "recipe-not-writable",
        f"a recipe in YAML has no words for {what}",
        hint="register it under a name, or use one of the library",
    )
