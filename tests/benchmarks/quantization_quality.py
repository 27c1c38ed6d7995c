"""Perplexity, KL and most likely tokens of the bundled model under recipes, beside rounding.

    python tests/benchmarks/quantization_quality.py [--texts N] [--length N] [--tokens N]
                                                    [--only NAME ...] [--kinds]

Texts are held out, some of each language and kind; calibration reads the model's own set. Both
sides run in float32, quantized weights and inputs as the numbers that codes stand for; router,
head, embeddings and kv_b_proj keep their format. Draft layers are not run. Names with `rtn` are
weights alone, rounded to nearest; under them, what the best recipe of the same size needs of their
increase of perplexity and of their KL.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2]))

from ascendfx import bundled_model
from ascendfx.ir.op import Array
from ascendfx.quant_passes.calibration.mixture import mix
from ascendfx.quant_passes.insertion.sites import Site, sites_of
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.recipe import Calibration, Recipe, TextShare
from ascendfx.quant_passes.policy.shipped import recipe_named
from ascendfx.runtime.checkpoint.packed_parameters import parts_of
from ascendfx.runtime.quantize.calibrated_model import CalibratedModel
from tests.benchmarks.parts.fake_quantized import FakeQuantized, by_tensor, by_token, narrow
from tests.quant.insertion.bundled_program import raised_program, weights

KEPT = """
  - match: ["*.kv_b_proj.weight", "*.mlp.gate.weight", "*lm_head.weight", "*.shared_head.*"]
    keep: true
"""
EXPERTS, PROJECTIONS = '"*.mlp.experts.*"', '["*_proj.weight", "*.kv_a_proj_with_mqa.weight"]'
GPTQ = "algorithm: gptq, options: {scales: {algorithm: ssz, weighted: true}, fallback: ssz}"


def _all(choice: str) -> str:
    return (
        f"sites:{KEPT}  - {{match: {EXPERTS}, {choice}}}\n  - {{match: {PROJECTIONS}, {choice}}}\n"
    )


def _mixed(experts: str, rest: str) -> str:
    return (
        f"sites:{KEPT}  - {{match: {EXPERTS}, {experts}}}\n  - {{match: {PROJECTIONS}, {rest}}}\n"
    )


RECIPES: Mapping[str, str] = {
    "rtn-int8": _all("weight: int8"),
    "rtn-w4e": _mixed("weight: int4", "weight: int8"),
    "rtn-int4": _all("weight: int4"),
    "int4": _all(f"weight: int4, {GPTQ}"),
    "rtn-int4-g32": _all("weight: int4, granularity: group 32"),
    "int4-g32": _all(f"weight: int4, granularity: group 32, {GPTQ}"),
    "rtn-int3": _all("weight: int3"),
    "int3": _all(f"weight: int3, {GPTQ}"),
    "rtn-int2-g32": _all("weight: int2, granularity: group 32"),
    "int2-g32": _all(f"weight: int2, granularity: group 32, {GPTQ}"),
    "w8a8": "",
    "w8a8kv8": _all("weight: int8, activation: dynamic") + "kv_cache: int8\n",
    "w4a8": "",
    "w4a8kv8": "",
    "w4a8-gptq": _mixed(
        f"weight: int4, activation: dynamic, {GPTQ}", "weight: int8, activation: dynamic"
    ),
}
"""YAML by name; empty: the preset."""
LATENT_READER = ".kv_b_proj.weight"


@dataclass(frozen=True, slots=True)
class Texts:
    """Held-out tokens.

    Attributes:
        ids: ``[texts, length]``.
        kinds: Language and kind of each.
    """

    ids: NDArray[np.int64]
    kinds: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Figures:
    """How a model differs from the one that it was made of, place by place.

    Attributes:
        told: Logarithm of the probability of the next token.
        divergence: KL(original | this), in nats.
        same: Whether the most likely token is the same.
    """

    told: NDArray[np.float64]
    divergence: NDArray[np.float64]
    same: NDArray[np.bool_]

    @property
    def perplexity(self) -> float:
        """Of all texts."""
        return float(np.exp(-self.told.mean()))

    def of(self, rows: NDArray[np.bool_]) -> "Figures":
        """Return those of some texts."""
        return Figures(self.told[rows], self.divergence[rows], self.same[rows])


def heldout(count: int, length: int) -> Texts:
    """Return the first texts of each language and kind."""
    tokenizer = Tokenizer.from_file(str(bundled_model() / "tokenizer.json"))
    file = bundled_model() / "texts" / "heldout.jsonl"
    taken: dict[str, list[list[int]]] = {}
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        found = taken.setdefault(f"{row['language']} {row['kind']}", [])
        ids = tokenizer.encode(row["text"]).ids[:length]
        if len(found) < count and len(ids) == length:
            found.append(ids)
    pairs = [(kind, ids) for kind, found in sorted(taken.items()) for ids in found]
    return Texts(np.array([ids for _, ids in pairs]), tuple(kind for kind, _ in pairs))


def recipe_called(name: str, tokens: int) -> Recipe:
    """Return a recipe of the table, with the calibration texts of the model."""
    recipe = recipe_of(RECIPES[name], file=name) if RECIPES[name] else recipe_named(name)
    texts = (TextShare(bundled_model() / "texts" / "calibration.jsonl"),)
    return replace(recipe, calibration=Calibration(texts, tokens=tokens))


@cache
def numbers() -> Mapping[str, Array]:
    """Return the weights in float32."""
    source = weights()
    return {key: narrow(np.asarray(source.load(key))) for key in source.keys()}  # noqa: SIM118


@cache
def windows(calibration: Calibration) -> NDArray[np.int64]:
    """Return the tokens of calibration."""
    tokenizer = Tokenizer.from_file(str(bundled_model() / "tokenizer.json"))
    return mix(calibration, lambda text: tokenizer.encode(text).ids, 1 << 31).windows


def quantized_logits(recipe: Recipe, ids: NDArray[np.int64]) -> NDArray[np.float64]:
    """Return the logits under a recipe."""
    model = None
    if recipe.needs:
        read = windows(recipe.calibration)
        model = CalibratedModel(raised_program(), weights(), read, recipe)
    changed = dict(numbers())
    scales: dict[str, float] = {}
    dynamic: set[str] = set()
    for site in sites_of(raised_program()):
        policy = recipe.policy_of(parts_by_expert(site)[0][0])
        if policy is not None and policy.activation == "dynamic":
            dynamic.add(site.key)
        changed[site.key] = quantized_weight(recipe, site, model)
        if recipe.cache is not None and model is not None and site.key.endswith(LATENT_READER):
            known = model.statistics(site.key)
            assert known is not None
            scales[site.key] = float(known.absmax.max()) / 127

    def inputs(key: str, x: Array) -> Array:
        if key in scales:
            return by_tensor(x, scales[key])
        return by_token(x) if key in dynamic else x

    return FakeQuantized(raised_program(), changed, inputs, ids).logits()


def parts_by_expert(site: Site) -> tuple[tuple[str, ...], ...]:
    """Return the names in the checkpoint of what a weight is made of, expert by expert."""
    return parts_of(site.key, site.experts) or ((site.key,),)


def quantized_weight(recipe: Recipe, site: Site, model: CalibratedModel | None) -> Array:
    """Return a weight as the numbers of its codes."""
    whole = numbers()[site.key]
    slices = whole.reshape(site.experts, *whole.shape[-2:])
    made = np.empty_like(slices)
    for expert, names in enumerate(parts_by_expert(site)):
        parts = np.split(slices[expert], len(names))  # gate and up have as many rows
        for i, (name, part) in enumerate(zip(names, parts, strict=True)):
            policy = recipe.policy_of(name)
            rows = slice(i * len(part), (i + 1) * len(part))
            if policy is None:
                made[expert, rows] = part
                continue
            known = model.statistics(name) if model and policy.needs else None
            made[expert, rows] = policy.algorithm.quantize(part, policy.spec, known).tensor.decode()
    return made.reshape(whole.shape)


def log_softmax(logits: NDArray[np.float64]) -> NDArray[np.float64]:
    """Return logarithms of probabilities."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def figures(own: NDArray[np.float64], true: NDArray[np.float64], ids: NDArray[np.int64]) -> Figures:
    """Return how logarithms of probabilities differ from the true ones."""
    told = np.take_along_axis(own[:, :-1], ids[:, 1:, None], -1)[..., 0]
    divergence = (np.exp(true) * (true - own)).sum(-1)
    return Figures(told, divergence, own.argmax(-1) == true.argmax(-1))


def main() -> None:
    """Print a line per recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=2, help="of each language and kind")
    parser.add_argument("--length", type=int, default=64, help="tokens of each text")
    parser.add_argument("--tokens", type=int, default=16384, help="of calibration")
    parser.add_argument("--only", nargs="+", choices=tuple(RECIPES), default=tuple(RECIPES))
    parser.add_argument("--kinds", action="store_true", help="a line per language and kind, too")
    options = parser.parse_args()
    texts = heldout(options.texts, options.length)
    true = log_softmax(
        FakeQuantized(raised_program(), numbers(), lambda _key, x: x, texts.ids).logits()
    )
    usual = figures(true, true, texts.ids)
    print(f"{len(texts.ids)} texts, {texts.ids.size} tokens; as it is: {usual.perplexity:.4f}")
    print(f"{'recipe':14}{'perplexity':>11}{'change':>9}{'KL':>10}{'same':>8}{'seconds':>9}")
    found: dict[str, Figures] = {}
    for name in options.only:
        start = time.perf_counter()
        recipe = recipe_called(name, options.tokens)
        own = found[name] = figures(
            log_softmax(quantized_logits(recipe, texts.ids)), true, texts.ids
        )
        print_line(name, own, usual, time.perf_counter() - start)
        if f"rtn-{name}" in found:
            rounded = found[f"rtn-{name}"]
            more, divergence = (
                (own.perplexity - usual.perplexity) / (rounded.perplexity - usual.perplexity),
                own.divergence.mean() / rounded.divergence.mean(),
            )
            print(f"  of rounding: {more:.2f} of the perplexity, {divergence:.2f} of the KL")
        for kind in sorted(set(texts.kinds)) if options.kinds else ():
            rows = np.array([each == kind for each in texts.kinds])
            print_line(f"  {kind}", own.of(rows), usual.of(rows), 0)


def print_line(name: str, own: Figures, usual: Figures, seconds: float) -> None:
    """Print the figures of a recipe."""
    change = own.perplexity / usual.perplexity - 1
    time_taken = f"{seconds:9.1f}" if seconds else ""
    print(
        f"{name:14}{own.perplexity:11.4f}{change:+9.2%}{own.divergence.mean():10.5f}"
        f"{own.same.mean():8.2%}{time_taken}",
        flush=True,
    )


if __name__ == "__main__":
    main()
