"""The recipes that come with the library, as YAML in ``presets/``, and recipes by name or file."""

from difflib import get_close_matches
from functools import cache
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.policy.read_recipe import read_recipe
from ascendfx.quant_passes.policy.recipe import Recipe

_PRESETS = Path(__file__).parent / "presets"
_SUFFIXES = (".yaml", ".yml")


def recipe_names() -> tuple[str, ...]:
    """Return the names of the recipes that come with the library."""
    return tuple(sorted(file.stem for file in _PRESETS.glob("*.yaml")))


def recipe_named(name: str) -> Recipe:
    """Return a recipe of the library, or that of a file whose name ends in ``.yaml``.

    Raises:
        GraphError: `recipe-not-known`, with the name that is near; what reading a file raises.
    """
    if name in recipe_names():
        return _shipped(name)
    if name.endswith(_SUFFIXES):
        return read_recipe(Path(name))
    near = get_close_matches(name.lower(), recipe_names(), n=1)
    meant = f"did you mean `{near[0]}`? " if near else ""
    raise GraphError(
        "recipe-not-known",
        f"no recipe is called `{name}`",
        hint=f"{meant}known: {', '.join(recipe_names())}; a file of your own ends in .yaml",
    )


@cache
def _shipped(name: str) -> Recipe:
    return read_recipe(_PRESETS / f"{name}.yaml")
