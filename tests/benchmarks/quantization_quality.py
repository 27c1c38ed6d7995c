"""Perplexity, KL and most likely tokens of the bundled model under recipes, beside rounding.

    python tests/benchmarks/quantization_quality.py [--length N] [--tokens N] [--only NAME ...]
                                                    [--kinds]

All held-out texts, each cut to its first tokens; calibration reads the model's own set. Both sides
run in float32, quantized weights and inputs as the numbers that codes stand for; router, head,
embeddings and kv_b_proj keep their format. Names with `rtn` are weights alone, rounded to nearest;
under the recipe of the same size, what it needs of their increase of perplexity and of their KL.

`same`: how often the most likely token is the one of the model as it is. `drafts`: how often the
token that the draft layer finds most likely is the one that the model finds most likely, both
quantized, along the texts. `MB`: all weights, those that keep their format included. `seconds`: to
make the weights.
"""

import argparse
import json
import sys
import time
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2]))

from ascendfx import bundled_model
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.recipe import Recipe, TextShare
from ascendfx.quant_passes.policy.shipped import recipe_named
from tests.benchmarks.parts.bundled_quality import BundledModel, Figures

KEPT = """
  - match:
      - "*.kv_b_proj.weight"
      - "*.mlp.gate.weight"
      - "*lm_head.weight"
      - "*.shared_head.*"
      - "*.eh_proj.weight"
    keep: true
"""
EXPERTS, PROJECTIONS = '"*.mlp.experts.*"', '["*_proj.weight", "*.kv_a_proj_with_mqa.weight"]'
GPTQ = "algorithm: gptq, options: {scales: {algorithm: ssz, weighted: true}, fallback: ssz}"

TUNED = "algorithm: tuned_scales"
FOLLOW = "calibration: {inputs: quantized}\n"
HALVES = "granularity: group 16, scales: bf16"
"""Twice as many scales of half the bytes: the size of groups of 32 with scales in float32."""


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
    "int4-g32": _all(f"weight: int4, {HALVES}, {GPTQ}"),
    "rtn-int3": _all("weight: int3"),
    "int3": _all(f"weight: int3, {GPTQ}"),
    "int3-tuned": _all(f"weight: int3, {TUNED}"),
    "int3-follow": _all(f"weight: int3, {TUNED}") + FOLLOW,
    "rtn-int2-g32": _all("weight: int2, granularity: group 32"),
    "int2-g32": _all(f"weight: int2, {HALVES}, {GPTQ}"),
    "int2-tuned": _all(f"weight: int2, {HALVES}, {TUNED}"),
    "w8a8": "",
    "w8a8kv8": _all("weight: int8, activation: dynamic") + "kv_cache: int8\n",
    "w4a8": "",
    "w4a8kv8": "",
    "w4a8-gptq": _mixed(
        f"weight: int4, activation: dynamic, {GPTQ}", "weight: int8, activation: dynamic"
    ),
}
"""YAML by name; empty: the preset."""
RTN = {name: f"rtn-{name}" for name in RECIPES if f"rtn-{name}" in RECIPES}
"""What is rounded to nearest in the same size."""
LEAST = {"int4": 0.45, "int4-g32": 0.45, "int3": 0.35, "int2-g32": 0.15}
"""What a recipe needs at most of what rounding loses."""


@dataclass(frozen=True, slots=True)
class Texts:
    """Held-out tokens.

    Attributes:
        ids: ``[texts, length]``, filled up with zeros.
        there: Which of them are of a text.
        kinds: Language and kind of each text.
    """

    ids: NDArray[np.int64]
    there: NDArray[np.bool_]
    kinds: tuple[str, ...]


def heldout(length: int, most: int | None = None) -> Texts:
    """Return the first tokens of all texts; or of as many of a kind, all of them that long."""
    tokenizer = Tokenizer.from_file(str(bundled_model() / "tokenizer.json"))
    file = bundled_model() / "texts" / "heldout.jsonl"
    taken: list[tuple[str, list[int]]] = []
    for line in file.read_text(encoding="utf-8").splitlines():
        row = json.loads(line)
        kind = f"{row['language']} {row['kind']}"
        found = tokenizer.encode(row["text"]).ids[:length]
        few = sum(kind == other for other, _ in taken) < (most or 0)
        if most is None or (few and len(found) == length):
            taken.append((kind, found))
    ids = np.zeros((len(taken), length), np.int64)
    there = np.zeros(ids.shape, np.bool_)
    for number, (_, found) in enumerate(taken):
        ids[number, : len(found)] = found
        there[number, : len(found)] = True
    return Texts(ids, there, tuple(kind for kind, _ in taken))


def recipe_called(name: str, tokens: int) -> Recipe:
    """Return a recipe of the table, with the calibration texts of the model."""
    recipe = recipe_of(RECIPES[name], file=name) if RECIPES[name] else recipe_named(name)
    texts = (TextShare(bundled_model() / "texts" / "calibration.jsonl"),)
    return replace(recipe, calibration=replace(recipe.calibration, texts=texts, tokens=tokens))


def main() -> None:
    """Print a line per recipe."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--length", type=int, default=128, help="tokens of each text")
    parser.add_argument("--tokens", type=int, default=32768, help="of calibration")
    parser.add_argument("--only", nargs="+", choices=tuple(RECIPES), default=tuple(RECIPES))
    parser.add_argument("--kinds", action="store_true", help="a line per language and kind, too")
    options = parser.parse_args()
    texts = heldout(options.length)
    model = BundledModel()
    true = model.run(model.weights, lambda _key, x: x, texts.ids)
    usual = Figures.of(true, true, texts.ids, texts.there)
    print(f"{len(texts.ids)} texts, {texts.there.sum()} tokens")
    print(
        f"{'recipe':14}{'perplexity':>11}{'change':>9}{'KL':>10}{'same':>8}{'drafts':>8}"
        f"{'MB':>7}{'seconds':>9}"
    )
    print_line("as it is", usual, usual, f"{model.bytes / 1e6:7.2f}")
    found: dict[str, Figures] = {}
    for name in options.only:
        start = time.perf_counter()
        made = model.quantized(recipe_called(name, options.tokens))
        seconds = time.perf_counter() - start
        ran = model.run(made.weights, made.inputs, texts.ids)
        own = found[name] = Figures.of(ran, true, texts.ids, texts.there)
        print_line(name, own, usual, f"{made.bytes / 1e6:7.2f}{seconds:9.1f}")
        rounded = found.get(RTN.get(name, ""))
        if rounded is not None:
            more = (own.perplexity - usual.perplexity) / (rounded.perplexity - usual.perplexity)
            divergence = own.divergence.mean() / rounded.divergence.mean()
            print(
                f"  of rounding: {more:.2f} of the perplexity, {divergence:.2f} of the KL; "
                f"at most {LEAST[name]:.2f}",
                flush=True,
            )
        for kind in sorted(set(texts.kinds)) if options.kinds else ():
            rows = np.array([each == kind for each in texts.kinds])
            print_line(f"  {kind}", own.part(rows), usual.part(rows), "")


def print_line(name: str, own: Figures, usual: Figures, more: str) -> None:
    """Print the figures of a recipe."""
    change = own.perplexity / usual.perplexity - 1
    print(
        f"{name:14}{own.perplexity:11.4f}{change:+9.2%}{own.divergence.mean():10.5f}"
        f"{own.same.mean():8.2%}{own.accepted.mean():8.2%}{more}",
        flush=True,
    )


if __name__ == "__main__":
    main()
