"""From the weights of a program and some recipes to the decisions that there are."""

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.mixed_precision.unit import Choice, Piece, Unit
from ascendfx.quant_passes.policy.recipe import Recipe, SitePolicy

Together = Callable[[str], str]
"""A label of a weight, by its name; weights with the same label are loaded as one."""
Storable = Callable[[Piece, Sequence[SitePolicy | None]], bool]
"""Whether a form of checkpoint has a place for what becomes of the parts of a piece."""


def alone(name: str) -> str:
    """Return a label that no other weight has."""
    return name


def units_of(
    pieces: Iterable[Piece],
    recipes: Sequence[Recipe],
    *,
    together: Together = alone,
    by_expert: bool = False,
    storable: Storable = lambda _piece, _policies: True,
) -> tuple[Unit, ...]:
    """Return the units, in the order of the program.

    Each recipe offers one choice for each unit; equal ones are one. Matrices of one site are one
    unit, and so is what loaders read as one.

    Args:
        pieces: All matrices by which the program projects.
        recipes: What may become of them.
        together: Labels of weights that are loaded as one.
        by_expert: Whether experts of a site may differ.
        storable: Choices with a piece that is not are left out.

    Raises:
        GraphError: `nothing-to-choose`: no recipe, or they agree; a unit has no choice that can be
            stored.
    """
    if not recipes:
        raise GraphError("nothing-to-choose", "no recipe is given", hint="give two or more")
    groups = _groups(pieces, together, by_expert=by_expert)
    found = tuple(_unit(group, recipes, storable) for group in groups)
    if all(len(unit.choices) == 1 for unit in found):
        names = ", ".join(dict.fromkeys(each.name for each in recipes))
        reason = f"there is nothing to choose: recipes {names} agree about all weights"
        hint = "give recipes that differ; what the form has no place for is left out"
        raise GraphError("nothing-to-choose", reason, hint=hint)
    return found


def _groups(
    pieces: Iterable[Piece], together: Together, *, by_expert: bool
) -> Iterator[tuple[Piece, ...]]:
    """Yield the pieces that share a label, directly or through others."""
    home: dict[Hashable, int] = {}
    groups: dict[int, list[tuple[int, Piece]]] = {}
    for number, piece in enumerate(pieces):
        labels: set[Hashable] = {("loaded", together(name)) for name in piece.names}
        if not by_expert:
            labels.add(("site", piece.site))
        joined = [(number, piece)]
        for group in sorted({home[label] for label in labels if label in home}):
            members = groups.pop(group)
            joined += members
            labels |= {label for label, place in home.items() if place == group}
        home |= dict.fromkeys(labels, number)
        groups[number] = joined
    ordered = sorted(sorted(group, key=lambda each: each[0]) for group in groups.values())
    for group in ordered:
        yield tuple(piece for _, piece in group)


def _unit(pieces: tuple[Piece, ...], recipes: Sequence[Recipe], storable: Storable) -> Unit:
    names = tuple(name for piece in pieces for name in piece.names)
    found: dict[tuple[SitePolicy | None, ...], tuple[str, ...]] = {}
    for recipe in recipes:
        policies = tuple(recipe.policy_of(name) for name in names)
        made = Choice((recipe.name,), policies)
        unit = Unit(names[0], pieces, (made,))
        if all(storable(piece, unit.policies_of(made, piece)) for piece in pieces):
            found[policies] = (*found.get(policies, ()), recipe.name)
    if not found:
        reason = f"no recipe has a form of `{names[0]}` that the checkpoint has a place for"
        hint = "add a recipe in which it keeps its format, or choose another form of checkpoint"
        raise GraphError("nothing-to-choose", reason, hint=hint)
    choices = (Choice(saying, policies) for policies, saying in found.items())
    return Unit(names[0], pieces, tuple(choices))
