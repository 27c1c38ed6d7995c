"""What scores are: errors of outputs, divergences, quartiles of weights and of inputs."""

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.mixed_precision.fake_inputs import fake_inputs
from ascendfx.quant_passes.mixed_precision.iqr_score import iqr_score
from ascendfx.quant_passes.mixed_precision.made_weight import made_weight
from ascendfx.quant_passes.mixed_precision.measure_units import measure_units, seen_units
from ascendfx.quant_passes.mixed_precision.measures import (
    Divergence,
    IqrOfInputs,
    IqrOfWeights,
    OutputError,
    changes_of,
)
from ascendfx.quant_passes.mixed_precision.reference_run import ReferenceRun
from ascendfx.quant_passes.scaling.granularity import PerChannel
from ascendfx.quant_passes.scaling.round_to_nearest import round_to_nearest
from tests.passes.captured_models import raised
from tests.quant.mixed_precision.small_model import (
    INT4,
    INT8,
    KEEP,
    MODEL,
    everywhere,
    source,
    units,
    weights,
    windows,
)


def judged(measure: object, *recipes: object, **options: bool) -> dict[str, tuple[float, ...]]:
    found = measure_units(units(*recipes, **options), measure, raised(MODEL), source(), windows())  # pyright: ignore[reportArgumentType]
    return {each.unit.name: each.scores for each in found}


def test_output_errors_are_those_of_all_tokens() -> None:
    scores = judged(OutputError())
    for seen in seen_units(units(), raised(MODEL), source(), windows(), keep=True):
        if len(seen.unit.choices) == 1:
            assert scores[seen.unit.name] == (0.0,)
            continue
        noise = signal = 0.0
        for piece in seen.unit.pieces:  # of one site each
            weight = seen.weight(piece).astype(np.float64)
            known = seen.inputs(piece)
            assert known is not None
            assert known.inputs is not None
            assert len(known.inputs) == known.tokens  # all were kept
            made = round_to_nearest(weight, Integer(4), PerChannel()).decode().astype(np.float64)
            true = known.inputs @ weight.T
            noise += np.square(fake_inputs(known.inputs, "dynamic") @ made.T - true).sum()
            signal += np.square(true).sum()
        kept, eight, four = scores[seen.unit.name]
        assert kept == 0
        assert four == pytest.approx(noise / signal)
        assert eight < four


def test_divergences_are_those_of_one_unit_at_a_time() -> None:
    run = ReferenceRun(raised(MODEL), source(), windows())
    scores = judged(Divergence(run), KEEP, INT4)
    for seen in seen_units(units(KEEP, INT4), raised(MODEL), source(), windows(), keep=False):
        if len(seen.unit.choices) > 1:
            changes = changes_of([(seen, seen.unit.choices[1])])
            assert set(changes.weights) == set(seen.unit.sites)
            assert scores[seen.unit.name] == (0.0, max(0.0, run.divergence(changes)))


def test_quartiles_of_weights_are_scaled_by_the_step() -> None:
    scores = judged(IqrOfWeights())
    site = next(unit for unit in units() if len(unit.pieces) > 1 and len(unit.choices) > 1)
    mean = np.mean([iqr_score(each) for each in weights()[site.sites[0]]])
    assert scores[site.name] == pytest.approx((0, mean, mean * 127 / 7))


def test_quartiles_of_inputs_count_experts_by_tokens() -> None:
    scores = judged(IqrOfInputs(), KEEP, INT8)
    for seen in seen_units(units(KEEP, INT8), raised(MODEL), source(), windows(), keep=True):
        if len(seen.unit.choices) > 1:
            known = [seen.inputs(piece) for piece in seen.unit.pieces]
            some = [k for k in known if k is not None and k.tokens]
            total = sum(k.tokens * iqr_score(k.inputs) for k in some if k.inputs is not None)
            expected = total / sum(k.tokens for k in some)
            assert scores[seen.unit.name] == pytest.approx((0, expected))


def test_quartiles_judge_integers_only() -> None:
    with pytest.raises(GraphError, match="bad-format"):
        judged(IqrOfWeights(), KEEP, everywhere("nf4", "weight: nf4"))


def test_calibration_is_not_run_for_what_needs_none() -> None:
    whole = units(KEEP, INT8)
    found = list(measure_units(whole, IqrOfWeights(), raised(MODEL), source(), None))
    assert [each.unit for each in found] == list(whole)


def test_algorithms_see_the_inputs_of_their_weight() -> None:
    form = "weight: int4, algorithm: gptq, options: {tokens_per_input: 0.01}"
    gptq, rounded = everywhere("gptq", form), everywhere("rtn", "weight: int4")
    scores = judged(OutputError(), KEEP, rounded, gptq)
    better = [each[2] < each[1] for each in scores.values() if len(each) == 3]
    assert sum(better) > 0.8 * len(better)


def test_one_expert_alone_can_be_changed() -> None:
    chosen = next(each for each in units(KEEP, INT4, by_expert=True) if each.pieces[0].expert == 1)
    (seen,) = seen_units([chosen], raised(MODEL), source(), None, keep=False)
    changes = changes_of([(seen, chosen.choices[1])])
    ((site, changed),) = changes.weights.items()
    differs = (changed != weights()[site]).any(axis=(1, 2))
    assert differs.tolist() == [place == 1 for place in range(len(changed))]
    assert changes.activations[site][:2] == (None, "dynamic")


def test_parts_of_one_product_read_one_form_of_inputs() -> None:
    piece = next(unit.pieces[0] for unit in units() if len(unit.pieces[0].names) == 2)
    policies = [recipe.policy_of(piece.names[0]) for recipe in (KEEP, INT8)]
    with pytest.raises(GraphError, match="nothing-to-choose"):
        made_weight(piece, policies, weights()[piece.site][0], None)
