"""A line of a recipe, from YAML."""

import re
from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec
from ascendfx.quant_passes.formats.format import Format
from ascendfx.quant_passes.formats.registry import format_named
from ascendfx.quant_passes.policy.algorithm_options import algorithm_of
from ascendfx.quant_passes.policy.recipe import RecipeLine, SitePolicy
from ascendfx.quant_passes.policy.yaml_fields import YamlFields, YamlValue
from ascendfx.quant_passes.scaling.granularity import (
    Granularity,
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
)
from ascendfx.quant_passes.scaling.scale_rule import (
    FULL_RANGE,
    MSMODELSLIM,
    OMNIQUANT,
    OPTIQUANT,
    ScaleRule,
)

_CHOICES = (
    "weight",
    "granularity",
    "rule",
    "symmetric",
    "scales",
    "algorithm",
    "options",
    "activation",
)
FIELDS = ("match", "only", "keep", *_CHOICES)
"""What a line may say."""
RULES: Mapping[str, ScaleRule] = {
    "exact": ScaleRule(),
    "msmodelslim": MSMODELSLIM,
    "optiquant": OPTIQUANT,
    "full_range": FULL_RANGE,
    "omniquant": OMNIQUANT,
}
"""Scale rules by the names that recipes have for them."""
_SCALES: Mapping[str, Literal[DType.F32, DType.BF16, DType.F16]] = {
    "f32": DType.F32,
    "bf16": DType.BF16,
    "f16": DType.F16,
}
_GRAINS: Mapping[str, Granularity] = {"tensor": PerTensor(), "channel": PerChannel()}
_GROUP = re.compile(r"group (\d{1,9})")
_BLOCK = re.compile(r"block (\d{1,9})x(\d{1,9})")


def read_line(value: YamlValue) -> RecipeLine:
    """Return a line of a recipe.

    Raises:
        GraphError: `bad-recipe`: fields that do not exist, or not together; what the names in it
            raise, with its place.
    """
    given = value.fields(FIELDS)
    match = tuple(each.text() for each in given.need("match").items())
    if not match:
        raise given.need("match").wrong("`match` has no pattern", 'write `match: "*_proj.weight"`')
    only = given.get("only")
    draft = only is not None and only.chosen(("draft",)) == "draft"
    unplaced = [pattern for pattern in match if not pattern.startswith("*.")]
    if draft and unplaced:
        reason = f"`{unplaced[0]}` is asked for draft layers only"
        raise given.need("match").wrong(
            reason, "begin it with `*.`, before the number of the layer"
        )
    return RecipeLine(match, _policy(given), draft, value.location)


def _policy(given: YamlFields) -> SitePolicy | None:
    keep = given.get("keep")
    if keep is not None and keep.flag():
        beside = next((name for name in given if name in _CHOICES), None)
        if beside:
            reason = f"the line keeps the format, and has `{beside}`"
            raise given.need(beside).wrong(reason, f"leave out `keep` or `{beside}`")
        return None
    form = given.need("weight")
    weight = _format(form)
    rule = _rule(given)
    algorithm = given.get("algorithm")
    options = given.get("options")
    if options is not None and algorithm is None:
        raise options.wrong("`options` are of no algorithm", "add `algorithm: ...`")
    chosen = MIN_MAX if algorithm is None else algorithm_of(algorithm, options)
    spec = WeightSpec(weight, _granularity(given.get("granularity")), rule)
    return SitePolicy(spec, chosen, _activation(given.get("activation")))


def _format(value: YamlValue) -> Format:
    try:
        found = format_named(value.text())
    except GraphError as error:
        raise replace(error, location=value.location) from error
    if not isinstance(found, Format):
        raise value.wrong(
            f"`{found.name}` has scales of its own, which no algorithm of a recipe chooses",
            "take another format",
        )
    return found


def _rule(given: YamlFields) -> ScaleRule:
    named, scales, symmetric = (given.get(name) for name in ("rule", "scales", "symmetric"))
    rule = RULES["exact" if named is None else named.chosen(RULES)]
    if scales is not None:
        rule = replace(rule, stored=_SCALES[scales.chosen(_SCALES)])
    return rule if symmetric is None else replace(rule, symmetric=symmetric.flag())


def _granularity(value: YamlValue | None) -> Granularity:
    if value is None:
        return _GRAINS["channel"]
    text = value.text()
    try:
        if text in _GRAINS:
            return _GRAINS[text]
        if group := _GROUP.fullmatch(text):
            return PerGroup(int(group[1]))
        if block := _BLOCK.fullmatch(text):
            return PerBlock(int(block[1]), int(block[2]))
    except GraphError as error:
        raise replace(error, location=value.location) from error
    hint = "write `channel`, `tensor`, `group 128` or `block 128x128`"
    raise value.wrong(f"no granularity is called `{text}`", hint)


def _activation(value: YamlValue | None) -> Literal["dynamic", "static"] | None:
    match "none" if value is None else value.chosen(("dynamic", "static", "none")):
        case "dynamic":
            return "dynamic"
        case "static":
            return "static"
        case _:
            return None
