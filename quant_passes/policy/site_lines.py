"""Recipes for programs: lines of `insert-quantization` that give the codes of a recipe."""

from collections.abc import Collection, Iterator

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.insertion.cache_form import LATENTS, CacheLine
from ascendfx.quant_passes.insertion.chosen_lines import QuantLine
from ascendfx.quant_passes.insertion.site_form import SiteForm, SiteLine
from ascendfx.quant_passes.policy.recipe import Recipe, RecipeLine, SitePolicy
from ascendfx.quant_passes.scaling.granularity import PerChannel
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule


def site_lines(recipe: Recipe, drafts: Collection[int] = ()) -> tuple[QuantLine, ...]:
    """Return the lines by which a compiled model multiplies the codes that a recipe chooses.

    A recipe with ``kv_cache`` has lines for latent caches, too: those of all layers that it does
    not keep, and not those of draft layers. A program has a scale for each token.

    Args:
        recipe: What becomes of weights: its algorithms are ``min_max``, since a program rounds to
            nearest. Codes of others come from a checkpoint.
        drafts: Numbers of the draft layers.

    Raises:
        GraphError: `recipe-not-runnable`: a line asks for what no program computes.
    """
    sites = (each for line in recipe.lines for each in _lines(line, drafts))
    return (*sites, *_cache_lines(recipe, drafts))


def _cache_lines(recipe: Recipe, drafts: Collection[int]) -> tuple[CacheLine, ...]:
    if recipe.cache is None:
        return ()
    kept = sorted({*recipe.cache.keep, *drafts})
    return (*(CacheLine(f"*.layers.{layer}.*", None) for layer in kept), *LATENTS)


def _lines(line: RecipeLine, drafts: Collection[int]) -> Iterator[SiteLine]:
    if line.draft and not drafts:
        return
    form = None if line.policy is None else _form(line, line.policy)
    for pattern in line.match:
        if not line.draft:
            yield SiteLine(pattern, form)
        for layer in drafts if line.draft else ():
            yield SiteLine(f"*.layers.{layer}{pattern[1:]}", form)
            yield SiteLine(f"*.layers.{layer}.{pattern}", form)


def _form(line: RecipeLine, policy: SitePolicy) -> SiteForm:
    spec, form = policy.spec, policy.spec.format
    if policy.algorithm != MinMax():
        raise _refused(f"{policy.algorithm.name} chooses the codes", line)
    if not isinstance(form, Integer) or not form.signed or form.rounding != "even":
        raise _refused(f"codes are {form.name}", line)
    if spec.granularity != PerChannel() or spec.rule != ScaleRule():
        raise _refused(f"scales are per {spec.granularity.name}, by a rule of its own", line)
    if policy.activation != "dynamic":
        raise _refused("inputs are not quantized by token", line)
    return SiteForm(bits=form.bits)


def _refused(why: str, line: RecipeLine) -> GraphError:
    return GraphError(
        "recipe-not-runnable",
        f"a program cannot make the codes of the recipe: {why}",
        line.location,
        notes=("it makes integers with a scale per channel, rounded to nearest, inputs by token",),
        hint="write a checkpoint with `ascendfx quantize`, and compile that",
    )
