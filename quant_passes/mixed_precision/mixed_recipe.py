"""Choices as a recipe in YAML: a line per unit, with the scores of all its choices beside it."""

import re
from collections.abc import Iterator, Sequence

from ascendfx.quant_passes.mixed_precision.measure_units import JudgedUnit
from ascendfx.quant_passes.mixed_precision.unit import Choice, Unit
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.recipe import Recipe, SitePolicy
from ascendfx.quant_passes.policy.recipe_text import line_text, recipe_text

_EXPERT = re.compile(r"(.*\.experts\.)\d+(\..*)")


def mixed_recipe_text(
    judged: Sequence[JudgedUnit],
    choices: Sequence[int],
    base: Recipe,
    *,
    measure: str,
    head: Sequence[str] = (),
) -> str:
    """Return the recipe that gives each unit what was chosen for it.

    What is no unit, such as draft layers, head and router, becomes what the base says.

    Args:
        judged: Units with scores; no line is needed for those with one choice that is the base's.
        choices: Of each unit.
        base: Its lines stand behind those of the units; calibration and cache are its own.
        measure: Name of the scores, for comments.
        head: Comment of the file, line by line.

    Raises:
        GraphError: `recipe-not-writable`: a policy that YAML has no words for.
    """
    lines = [f"# {line}".rstrip() for line in head]
    lines += ["", "sites:"] if head else ["sites:"]
    for each, choice in zip(judged, choices, strict=True):
        chosen = each.unit.choices[choice]
        if len(each.unit.choices) > 1:
            lines.append(f"  # {measure}: {_scores(each, choice)}")
            lines += _lines(each.unit, chosen)
    text = "\n".join((*lines, *recipe_text(base).splitlines()[1:])) + "\n"
    _check(text, judged, choices)
    return text


def _scores(judged: JudgedUnit, choice: int) -> str:
    pairs = zip(judged.unit.choices, judged.scores, strict=True)
    told = (
        f"{each.name} {score:.3g}{' (chosen)' if place == choice else ''}"
        for place, (each, score) in enumerate(pairs)
    )
    return ", ".join(told)


def _lines(unit: Unit, choice: Choice) -> Iterator[str]:
    """Yield lines for the policies of a unit; names of all experts are one pattern."""
    by_policy: dict[SitePolicy | None, list[str]] = {}
    for name, policy in zip(unit.names, choice.policies, strict=True):
        by_policy.setdefault(policy, []).append(name)
    for policy, names in by_policy.items():
        whole = _experts(unit, names)
        patterns = dict.fromkeys(
            _EXPERT.sub(r"\1*\2", name) if whole else _literal(name) for name in names
        )
        yield from line_text(tuple(patterns), policy)


def _experts(unit: Unit, names: Sequence[str]) -> bool:
    """Whether the names are those of all experts of their sites."""
    wanted = {
        name for piece in unit.pieces if piece.experts > 1 for name in piece.names if name in names
    }
    counts = {
        piece.site: sum(other.site == piece.site for other in unit.pieces) for piece in unit.pieces
    }
    complete = all(counts[piece.site] == piece.experts for piece in unit.pieces)
    return complete and wanted == set(names)


def _literal(name: str) -> str:
    return "".join(f"[{letter}]" if letter in "*?[" else letter for letter in name)


def _check(text: str, judged: Sequence[JudgedUnit], choices: Sequence[int]) -> None:
    """Check that reading the text gives each weight what was chosen for it."""
    read = recipe_of(text)
    for each, choice in zip(judged, choices, strict=True):
        for name, policy in zip(each.unit.names, each.unit.choices[choice].policies, strict=True):
            if read.policy_of(name) != policy:
                raise AssertionError(f"the recipe gives `{name}` {read.policy_of(name)}")
