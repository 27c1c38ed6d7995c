"""Outliers that change nothing are injected; migration makes the quantized model usable again.

    python tests/benchmarks/outlier_migration.py [--texts N] [--length N] [--tokens N] [--factor F]
                                                 [--only NAME ...]

Before each norm's readers 1 % of the channels become 100 times as large, and the columns of the
weights that read them as much smaller: the float model stays what it is. Then projections, experts
and their inputs are quantized, weights by output channel and inputs by token, rounded to nearest;
router, head, embeddings and kv_b_proj keep their format. Factors are found on texts of the
calibration set, figures are of texts held out. Recovered is the part of the gap between the plain
quantized model and the float model, and between it and the model quantized without outliers.
"""

import argparse
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np
from numpy.typing import NDArray
from tokenizers import Tokenizer

sys.path.insert(0, str(Path(__file__).parents[2]))

from ascendfx import bundled_model
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.quant_passes.calibration.gathered_rows import Collected
from ascendfx.quant_passes.calibration.mixture import mix
from ascendfx.quant_passes.calibration.statistics_by_layer import statistics_by_layer
from ascendfx.quant_passes.insertion.site_form import W8A8, form_of
from ascendfx.quant_passes.insertion.sites import sites_of
from ascendfx.quant_passes.migration.choices import ROTATIONS, Choices
from ascendfx.quant_passes.migration.find_transforms import find_transforms
from ascendfx.quant_passes.migration.migrate_outliers import MigrateOutliers
from ascendfx.quant_passes.migration.transform_name import migrated_name, original_name
from ascendfx.quant_passes.policy.recipe import Calibration, TextShare
from ascendfx.quant_passes.statistics import InputStatistics
from tests.benchmarks.parts.fake_quantized import FakeQuantized, narrow
from tests.benchmarks.parts.outliers import materialised, with_outliers
from tests.quant.insertion.bundled_program import raised_program, texts, weights

Numbers = NDArray[np.float64]
NORMS = Choices(stream="factors", latent="factors")
"""Where the outliers are."""
CASES: Mapping[str, tuple[int, Choices]] = {
    "w8a8-factors": (8, NORMS),
    "w8a8-rotations": (8, ROTATIONS),
    "w4a4-rotations": (4, ROTATIONS),
}
"""Bits of weights and inputs, and what is migrated."""


@dataclass(frozen=True, slots=True)
class Figures:
    """How well a model predicts, and how far it is from the original.

    Attributes:
        perplexity: Of the texts.
        divergence: Mean of KL(original | this), in nats.
        same: Share of places with the same most likely token.
    """

    perplexity: float
    divergence: float
    same: float


def numbers() -> dict[str, Array]:
    """Return the weights of the bundled model in float32."""
    source = weights()
    return {key: narrow(np.asarray(source.load(key))) for key in source.keys()}  # noqa: SIM118


def log_softmax(logits: Numbers) -> Numbers:
    """Return logarithms of probabilities."""
    shifted = logits - logits.max(-1, keepdims=True)
    return shifted - np.log(np.exp(shifted).sum(-1, keepdims=True))


def figures(own: Numbers, true: Numbers, ids: NDArray[np.int64]) -> Figures:
    """Return how logarithms of probabilities differ from the true ones."""
    told = np.take_along_axis(own[:, :-1], ids[:, 1:, None], -1)
    return Figures(
        float(np.exp(-told.mean())),
        float((np.exp(true) * (true - own)).sum(-1).mean()),
        float((own.argmax(-1) == true.argmax(-1)).mean()),
    )


def rounded(x: Array, largest: int) -> Array:
    """Return rows as symmetric codes up to ``largest`` have them, a scale for each."""
    scale = np.maximum(np.abs(x).max(-1, keepdims=True), 1e-30) / np.float32(largest)
    return np.rint(x / scale) * scale


def quantized_logits(
    program: Program, known: Mapping[str, Array], ids: NDArray[np.int64], bits: int
) -> Numbers:
    """Return the logits with weights and inputs of sites in codes of some bits; 0: as they are."""
    largest = 2 ** (bits - 1) - 1 if bits else 0
    chosen = {site.key for site in sites_of(program) if form_of(W8A8, site.key)} if bits else set()
    changed = dict(known)
    for key in chosen:
        name = migrated_name(key) if migrated_name(key) in known else key
        changed[name] = rounded(known[name], largest)

    def inputs(key: str, x: Array) -> Array:
        return rounded(x, largest) if original_name(key) in chosen else x

    return FakeQuantized(program, changed, inputs, ids).logits().astype(np.float64)


def statistics(
    program: Program, known: Mapping[str, Array], windows: NDArray[np.int64]
) -> Callable[[str], tuple[InputStatistics, ...] | None]:
    """Return what weights see of texts: extrema and some rows."""
    run = statistics_by_layer(program, ArraySource(known), windows, lambda _key: Collected())
    found = {
        key: tuple(each.statistics() for each in rows)
        for layer in run
        for key, rows in layer.rows.items()
    }
    return found.get


def migrated(
    choices: Choices, known: Mapping[str, Array], windows: NDArray[np.int64]
) -> tuple[Program, dict[str, Array]]:
    """Return the migrated program and its weights."""
    program = raised_program()
    seen = statistics(program, known, windows)
    found = find_transforms(program, choices, ArraySource(known), seen)
    return materialised(MigrateOutliers(choices).run(program).program, {**known, **found.tensors})


@cache
def calibration(tokens: int, length: int = 64) -> NDArray[np.int64]:
    """Return tokens of the calibration set of the model."""
    tokenizer = Tokenizer.from_file(str(bundled_model() / "tokenizer.json"))
    sets = (TextShare(bundled_model() / "texts" / "calibration.jsonl"),)
    wanted = Calibration(sets, tokens=tokens, length=length)
    return mix(wanted, lambda text: tokenizer.encode(text).ids, 1 << 31).windows


def recovered(plain: Figures, ours: Figures, best: Figures) -> tuple[float, float]:
    """Return the parts of the gaps of perplexity and of KL to another model that are closed."""
    gaps = plain.perplexity - best.perplexity, plain.divergence - best.divergence
    closed = plain.perplexity - ours.perplexity, plain.divergence - ours.divergence
    return closed[0] / gaps[0], closed[1] / gaps[1]


def main() -> None:
    """Print a table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=2, help="of each language")
    parser.add_argument("--length", type=int, default=48, help="tokens of each text")
    parser.add_argument("--tokens", type=int, default=8192, help="of calibration")
    parser.add_argument("--factor", type=float, default=100.0, help="size of outliers")
    parser.add_argument("--only", nargs="+", choices=tuple(CASES), default=tuple(CASES))
    options = parser.parse_args()
    ids = texts(options.texts, options.length)
    windows = calibration(options.tokens)
    program, original = raised_program(), numbers()
    true = log_softmax(quantized_logits(program, original, ids, 0))
    usual = figures(true, true, ids)
    injected = with_outliers(program, original, factor=options.factor)

    def line(name: str, found: Figures, since: float, rest: str = "") -> None:
        print(
            f"{name:34}{found.perplexity:11.3f}{found.divergence:10.4f}{found.same:8.1%}"
            f"{time.perf_counter() - since:9.1f}{rest}",
            flush=True,
        )

    print(f"{len(ids)} texts, {ids.size} tokens; calibration {windows.size} tokens")
    heads = f"{'perplexity':>11}{'KL':>10}{'same':>8}{'seconds':>9}"
    print(f"{'model':34}{heads}  recovered: perplexity, KL; of what outliers cost")
    line("float", usual, time.perf_counter())
    start = time.perf_counter()
    again = log_softmax(quantized_logits(program, injected, ids, 0))
    line("float, outliers", figures(again, true, ids), start)
    for name in options.only:
        bits, choices = CASES[name]
        start = time.perf_counter()
        without = figures(log_softmax(quantized_logits(program, original, ids, bits)), true, ids)
        line(f"{name}: no outliers", without, start)
        start = time.perf_counter()
        plain = figures(log_softmax(quantized_logits(program, injected, ids, bits)), true, ids)
        line(f"{name}: outliers", plain, start)
        start = time.perf_counter()
        new, made = migrated(choices, injected, windows)
        exact = figures(log_softmax(quantized_logits(new, made, ids, 0)), true, ids)
        line(f"{name}: float, migrated", exact, start)
        start = time.perf_counter()
        ours = figures(log_softmax(quantized_logits(new, made, ids, bits)), true, ids)
        parts = (*recovered(plain, ours, usual), *recovered(plain, ours, without))
        told = ", ".join(f"{each:.2%}" for each in parts)
        line(f"{name}: outliers, migrated", ours, start, f"  {told}")


if __name__ == "__main__":
    main()
