"""Mixed recipes beside uniform ones of the same size, on the bundled model.

    python tests/benchmarks/mixed_precision.py [--texts N] [--length N] [--tokens N]
                                               [--by NAME ...] [--gptq] [--front FILE.svg]

Sensitivities are measured on the model's calibration texts, KL of the results on held-out ones, in
float32. Every mixture has at most the bytes of the uniform recipe beside it, as compressed-tensors
stores them, and keeps the limits of its loader: gate and up alike, q_a and kv_a alike, one form
for all routed experts of a layer. Router, head, embeddings and kv_b_proj keep their format, and
count. The last lines say how far the sum of scores is from the KL of the whole.
"""

import argparse
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[2]))

from ascendfx import bundled_model
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.ascend_limits import loaded_with
from ascendfx.quant_passes.checkpoint.compressed_form import CompressedForm
from ascendfx.quant_passes.mixed_precision.best_choices import Limit, Table, best_choices, total
from ascendfx.quant_passes.mixed_precision.front_svg import front_svg
from ascendfx.quant_passes.mixed_precision.made_weight import MadeWeight
from ascendfx.quant_passes.mixed_precision.measure_units import seen_units
from ascendfx.quant_passes.mixed_precision.measures import (
    Divergence,
    IqrOfInputs,
    IqrOfWeights,
    Measure,
    OutputError,
    SeenUnit,
    changes_of,
)
from ascendfx.quant_passes.mixed_precision.pareto_front import pareto_front
from ascendfx.quant_passes.mixed_precision.reference_run import ReferenceRun
from ascendfx.quant_passes.mixed_precision.unit import Choice, Piece
from ascendfx.quant_passes.mixed_precision.unit_costs import costs_of, stored_bytes
from ascendfx.quant_passes.mixed_precision.units_of import units_of
from ascendfx.quant_passes.policy.read_recipe import recipe_of
from ascendfx.quant_passes.policy.recipe import Calibration, Recipe, TextShare
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from ascendfx.runtime.quantize.pieces_of import pieces_of
from tests.benchmarks.parts.bundled_quality import windows
from tests.benchmarks.quantization_quality import RECIPES, heldout
from tests.quant.insertion.bundled_program import raised_program, weights

ROUNDED: Mapping[str, str] = {
    name: RECIPES[f"rtn-{name}"] for name in ("int2-g32", "int3", "int4", "int4-g32", "w4e", "int8")
}
"""Recipes that are followed everywhere; all of them are offered to mixtures."""
BETTER: Mapping[str, str] = {
    **{name: RECIPES[name] for name in ("int2-g32", "int3", "int4", "int4-g32")},
    "w4e": RECIPES["w4a8-gptq"].replace(", activation: dynamic", ""),
    "int8": RECIPES["rtn-int8"],
}
"""The same by GPTQ."""
FORM = CompressedForm()


@dataclass(frozen=True, slots=True, eq=False)
class Offered:
    """What there is to choose.

    Attributes:
        seen: Units with their weights and statistics.
        costs: Bytes of their choices.
        fixed: Bytes of all other weights.
    """

    seen: tuple[SeenUnit, ...]
    costs: Table
    fixed: float

    def uniform(self, recipe: str) -> tuple[int, ...]:
        """Return the choices of one recipe everywhere."""
        return tuple(
            next(i for i, choice in enumerate(each.unit.choices) if recipe in choice.recipes)
            for each in self.seen
        )

    def size(self, choices: Sequence[int]) -> float:
        """Return the bytes of choices, with all other weights."""
        return total(self.costs, choices) + self.fixed

    def divergence(self, run: ReferenceRun, choices: Sequence[int]) -> float:
        """Return the KL of the whole."""
        pairs = zip(self.seen, choices, strict=True)
        return run.divergence(changes_of((each, each.unit.choices[i]) for each, i in pairs))


class RememberedUnit(SeenUnit):
    """A unit whose weights are made once for all measures."""

    def made(self, choice: Choice) -> Iterator[tuple[Piece, MadeWeight]]:
        key = self.unit.name, choice
        if key not in _MADE:
            _MADE[key] = tuple(super().made(choice))
        return iter(_MADE[key])


_MADE: dict[tuple[str, Choice], tuple[tuple[Piece, MadeWeight], ...]] = {}


def offered(texts: Mapping[str, str], read: NDArray[np.int64]) -> Offered:
    """Return what some recipes offer for the bundled model."""
    recipes = [recipe_of(text, file=name) for name, text in texts.items()]
    stored = open_checkpoint(bundled_model())
    keys = set(stored.keys())
    pieces = tuple(pieces_of(raised_program(), keys))
    units = units_of(pieces, [*recipes, Recipe("keep", ())], together=loaded_with)
    seen = tuple(
        RememberedUnit(each.unit, each.weights, each.inputs)
        for each in seen_units(units, raised_program(), weights(), read, keep=True)
    )
    rest = keys - {name for piece in pieces for name in piece.names}
    fixed = sum(2.0 * np.prod(stored.shape(key)) for key in rest)
    cost = stored_bytes(FORM, DType.BF16)
    return Offered(seen, tuple(costs_of(each.unit, cost) for each in seen), fixed)


def measured(choice: Offered, measure: Measure) -> Table:
    """Return the scores of all choices."""
    start = time.perf_counter()
    found = tuple(
        measure.scores(each) if len(each.unit.choices) > 1 else (0.0,) for each in choice.seen
    )
    print(f"{measure.name}: measured in {time.perf_counter() - start:.1f} s", flush=True)
    return found


def show(choice: Offered, scores: Mapping[str, Table], run: ReferenceRun) -> None:
    """Print a line per uniform recipe, and the mixtures of its size."""
    print(f"\n{'recipe':10}{'bytes':>12}{'KL':>10}", end="")
    print("".join(f"{'by ' + name:>16}{'':8}" for name in scores))
    for name in ROUNDED:
        own = choice.uniform(name)
        size, true = choice.size(own), choice.divergence(run, own)
        print(f"{name:10}{size:12,.0f}{true:10.5f}", end="")
        for table in scores.values():
            limit = Limit("bytes", choice.costs, size, choice.fixed)
            mixed = choice.divergence(run, best_choices(table, [limit]))
            print(f"{mixed:16.5f} ({mixed / true:4.2f})", end="", flush=True)
        print()


def main() -> None:
    """Measure, choose, compare."""
    known = ("kl", "output", "iqr-weights", "iqr-inputs")
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--texts", type=int, default=2, help="of each language and kind")
    parser.add_argument("--length", type=int, default=64, help="tokens of each text")
    parser.add_argument("--tokens", type=int, default=16384, help="of calibration")
    parser.add_argument("--places", type=int, default=2048, help="of `kl`, calibration tokens")
    parser.add_argument("--by", nargs="+", choices=known, default=known)
    parser.add_argument("--gptq", action="store_true", help="codes by GPTQ, not by rounding")
    parser.add_argument("--front", type=Path, help="a picture of the front by `kl`")
    options = parser.parse_args()
    texts = (TextShare(bundled_model() / "texts" / "calibration.jsonl"),)
    read = windows(Calibration(texts, tokens=options.tokens))
    choice = offered(BETTER if options.gptq else ROUNDED, read)
    told = sum(len(each.unit.choices) > 1 for each in choice.seen)
    print(f"{told} units, {sum(len(x.unit.choices) for x in choice.seen)} choices", flush=True)
    here = ReferenceRun(
        raised_program(), weights(), read[: max(1, options.places // read.shape[1])]
    )
    measures = {
        each.name: each for each in (Divergence(here), OutputError(), IqrOfWeights(), IqrOfInputs())
    }
    scores = {name: measured(choice, measures[name]) for name in options.by}
    there = ReferenceRun(raised_program(), weights(), heldout(options.length, options.texts).ids)
    show(choice, scores, there)
    if "kl" not in scores:
        return
    print("\nsum of the scores of single units over the KL of the whole, calibration texts:")
    for name in ROUNDED:
        own = choice.uniform(name)
        print(f"  {name:10}{total(scores['kl'], own) / choice.divergence(here, own):6.2f}")
    if options.front:
        points = pareto_front(scores["kl"], choice.costs)
        uniform = {
            name: (total(choice.costs, own), total(scores["kl"], own))
            for name, own in ((name, choice.uniform(name)) for name in ROUNDED)
        }
        options.front.write_text(front_svg(points, uniform, cost="bytes", score="kl"), "utf-8")


if __name__ == "__main__":
    main()
