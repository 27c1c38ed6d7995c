"""A recipe from a text in YAML."""

from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.policy.read_line import read_line
from ascendfx.quant_passes.policy.recipe import Calibration, LatentCache, Recipe, TextShare
from ascendfx.quant_passes.policy.yaml_fields import YamlFields, YamlValue, read_yaml

_FIELDS = ("sites", "calibration", "kv_cache")
_CALIBRATION = ("texts", "tokens", "length", "seed", "inputs")
_INPUTS = ("original", "quantized")
_LARGEST = 1 << 20
"""Bytes of a recipe; larger files are something else."""


def read_recipe(file: Path) -> Recipe:
    """Return the recipe of a file; texts of calibration are looked for beside it.

    Raises:
        GraphError: `recipe-not-readable`; `bad-recipe`, with file and line.
    """
    try:
        if file.stat().st_size > _LARGEST:
            reason = f"{file} has {file.stat().st_size:,} bytes, too many for a recipe"
            raise GraphError("bad-recipe", reason, hint="give a small YAML file with `sites:`")
        text = file.read_text(encoding="utf-8")
    except OSError as error:
        reason = f"recipe {file} cannot be read: {error.strerror}"
        raise GraphError("recipe-not-readable", reason, hint="look at its name") from error
    except UnicodeDecodeError as error:
        reason = f"recipe {file} is no text in UTF-8"
        raise GraphError("recipe-not-readable", reason, hint="give a YAML file") from error
    return recipe_of(text, file=str(file), folder=file.parent)


def recipe_of(text: str, *, file: str = "<recipe>", folder: Path | None = None) -> Recipe:
    """Return the recipe of a text.

    Args:
        text: In YAML.
        file: Its name, for messages; the stem is the name of the recipe.
        folder: Where relative names of texts begin; None: in the working directory.

    Raises:
        GraphError: `bad-recipe`, with file and line.
    """
    whole = read_yaml(text, file, "recipe")
    given = whole.fields(_FIELDS)
    sites = given.need("sites")
    if sites.is_scalar or not sites.items():
        raise sites.wrong("`sites` has no lines", 'add `- match: "*_proj.weight"`')
    lines = tuple(read_line(each.called("line")) for each in sites.items())
    return Recipe(
        Path(file).stem,
        lines,
        _calibration(given.get("calibration"), folder or Path()),
        _cache(given.get("kv_cache")),
    )


def _calibration(value: YamlValue | None, folder: Path) -> Calibration:
    usual = Calibration()
    if value is None:
        return usual
    given = value.fields(_CALIBRATION)
    texts = given.get("texts")
    inputs = given.get("inputs")
    sets = tuple(_share(each.called("texts"), folder) for each in texts.items()) if texts else ()
    return Calibration(
        sets,
        _count(given, "tokens", usual.tokens, 1),
        _count(given, "length", usual.length, 1),
        _count(given, "seed", usual.seed, 0),
        "quantized" if inputs is not None and inputs.chosen(_INPUTS) == "quantized" else "original",
    )


def _share(value: YamlValue, folder: Path) -> TextShare:
    if value.is_scalar:
        return TextShare(folder / value.text())
    given = value.fields(("file", "share"))
    share = given.get("share")
    part = 1.0 if share is None else share.number()
    if share is not None and part <= 0:
        raise share.wrong(f"`share` is {part:g}", "write a positive number, or leave the set out")
    return TextShare(folder / given.need("file").text(), part)


def _cache(value: YamlValue | None) -> LatentCache | None:
    if value is None:
        return None
    if value.is_scalar:
        return LatentCache() if value.chosen(("int8", "none")) == "int8" else None
    given = value.fields(("format", "keep_layers"))
    given.need("format").chosen(("int8",))
    kept = given.get("keep_layers")
    return LatentCache(frozenset(each.count() for each in kept.items()) if kept else frozenset())


def _count(given: YamlFields, name: str, usual: int, least: int) -> int:
    value = given.get(name)
    return usual if value is None else value.count(least)
