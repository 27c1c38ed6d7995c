"""Transforms: products stay, references are met, outliers stop hurting."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms.gptq import Gptq
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import PerChannel, PerGroup, PerToken
from ascendfx.quant_passes.scaling.round_to_nearest import round_to_nearest
from ascendfx.quant_passes.scaling.scale_rule import DYNAMIC, FULL_RANGE
from ascendfx.quant_passes.statistics import InputStatistics, statistics_of, without_tokens
from ascendfx.quant_passes.transforms.awq import Awq
from ascendfx.quant_passes.transforms.flex_smooth_quant import FlexSmoothQuant
from ascendfx.quant_passes.transforms.hadamard import hadamard_matrix, hadamard_rotation
from ascendfx.quant_passes.transforms.random_rotation import random_rotation
from ascendfx.quant_passes.transforms.rotation import Rotation
from ascendfx.quant_passes.transforms.scaling import Scaling
from ascendfx.quant_passes.transforms.smooth_quant import SmoothQuant
from tests.quant.algorithms.layers import layer
from tests.quant.reference_vectors import vectors

W = vectors("round_to_nearest")["W"]
REFERENCE = vectors("weight_algorithms")
X = REFERENCE["X"]
KNOWN = statistics_of(X)
LIVE = np.delete(np.arange(64), 40)  # the reference weight has a dead channel
GROUPS = WeightSpec(Integer(4), PerGroup(32), replace(FULL_RANGE, symmetric=False))
AWQ_ERRORS = (
    *(0.00615076906979084, 0.004130828194320202, 0.0038018040359020233, 0.0035115722566843033),
    *(0.0022313620429486036, 0.002142626792192459, 0.002163143828511238, 0.002348580863326788),
    *(0.0018275727052241564, 0.001678755972534418, 0.0017861471278592944, 0.0019042917992919683),
    *(0.00211921613663435, 0.0025023105554282665, 0.0031464528292417526, 0.0037534567527472973),
    *(0.004108584485948086, 0.004830579273402691, 0.005951275117695332, 0.0071108415722846985),
)


def relative_error(inputs: Any, weight: Any, bits: int) -> float:
    """Return the squared error of a product of rounded tokens and channels over its square."""
    form = Integer(bits, narrow=True)
    x = round_to_nearest(inputs, form, PerToken(), DYNAMIC).decode().astype(np.float64)
    w = round_to_nearest(weight, form, PerChannel(), DYNAMIC).decode().astype(np.float64)
    exact = inputs.astype(np.float64) @ weight.T.astype(np.float64)
    return float(np.square(x @ w.T - exact).mean() / np.square(exact).mean())


def test_smooth_quant_of_msmodelslim() -> None:
    """Powers in float64 here, in float32 there."""
    found = SmoothQuant(dead=True).search([W], KNOWN)
    np.testing.assert_allclose(found.factors, REFERENCE["smooth_scale_alpha0.5"], rtol=4 * 2**-23)
    ours = SmoothQuant().search([W], KNOWN)
    np.testing.assert_array_equal(ours.factors[LIVE], found.factors[LIVE])
    assert ours.factors[40] == 1
    for bits, plain, smooth in ((8, 2.1593e-4, 3.9758e-5), (4, 0.0525417, 0.0123044)):
        assert relative_error(X, W, bits) == pytest.approx(plain, rel=1e-4)
        scaled = relative_error(ours.inputs(X), ours.weight(W), bits)
        assert scaled == pytest.approx(smooth, rel=1e-4)


def test_flex_smooth_quant_of_msmodelslim_with_and_without_the_dead_channel() -> None:
    """The reference finds alpha 0.6 without the channel, and no smoothing with it."""
    for channels in (LIVE, np.arange(64)):
        found = FlexSmoothQuant().search([W[:, channels]], statistics_of(X[:, channels]))
        assert (found.alpha, found.beta) == (0.6, 0.4)
        assert found.error == pytest.approx(0.0055820695, rel=1e-5)


def test_awq() -> None:
    found = Awq(dead=True).search([W], GROUPS, KNOWN)
    assert found.ratio == 0.45
    np.testing.assert_allclose(found.errors, AWQ_ERRORS, rtol=5e-6)
    np.testing.assert_allclose(found.scaling.factors, REFERENCE["awq_best_scale"], rtol=4 * 2**-23)
    ours = Awq().search([W], GROUPS, KNOWN)
    assert min(ours.errors) == ours.errors[9] < 0.3 * ours.errors[0]
    assert ours.scaling.factors[40] == 1
    live = ours.scaling.factors[LIVE]
    assert live.max() * live.min() == pytest.approx(1)


@pytest.mark.parametrize(("name", "block"), [("hadamard64", 64), ("hadamard64_block32", 32)])
def test_rotations_of_msmodelslim(name: str, block: int) -> None:
    """Its matrices have the same magnitudes; the signs are of a generator of its own."""
    theirs = REFERENCE[f"ms_{name}"]
    ours = hadamard_rotation(64, block=block).matrix()
    np.testing.assert_allclose(np.abs(theirs), np.abs(ours), rtol=2**-23)
    exact = Rotation(np.sign(theirs[:block, :block]) / np.sqrt(block), np.ones(64))
    np.testing.assert_allclose(exact.matrix(), theirs, rtol=2**-23)
    told = {64: 0.01006622, 32: 0.01140323}[block]
    assert relative_error(exact.apply(X), exact.apply(W), 4) == pytest.approx(told, rel=1e-4)


@pytest.mark.parametrize(
    "order",
    [1, 2, 4, 12, 20, 28, 36, 48, 64, 80, 112, 144, 160, 208, 240, 304, 432, 560, 624, 1536],
)
def test_hadamard_matrices(order: int) -> None:
    matrix = hadamard_matrix(order)
    assert (np.abs(matrix) == 1).all()
    np.testing.assert_array_equal(matrix @ matrix.T, order * np.eye(order))


@pytest.mark.parametrize("width", [7168, 1536, 512, 2048, 18432])
def test_all_widths_of_deepseek_v3_have_a_hadamard_matrix(width: int) -> None:
    """A matrix of a 64th of the width gives one of the width, which is large."""
    assert len(hadamard_matrix(width // 64)) == width // 64


@pytest.mark.parametrize("order", [0, -4, 3, 6, 92, 688])
def test_orders_without_a_matrix_here(order: int) -> None:
    with pytest.raises(GraphError, match=f"no Hadamard matrix of order {order}") as refused:
        hadamard_matrix(order)
    assert refused.value.code == "bad-transform"


ROTATIONS = [
    hadamard_rotation(64),
    hadamard_rotation(64, block=16, seed=3),
    hadamard_rotation(64, seed=None),
    random_rotation(64),
    random_rotation(64, block=8, seed=5),
]


@pytest.mark.parametrize("rotation", ROTATIONS)
def test_rotations_leave_products_alone(rotation: Rotation) -> None:
    x, w = X.astype(np.float64), W.astype(np.float64)
    np.testing.assert_allclose(rotation.apply(x) @ rotation.apply(w).T, x @ w.T, atol=1e-12)
    np.testing.assert_allclose(x @ rotation.matrix(), rotation.apply(x), atol=1e-12)
    known = rotation.statistics(KNOWN)
    moments = statistics_of(rotation.apply(x)).moments
    assert known.moments is not None
    assert moments is not None
    np.testing.assert_allclose(known.moments, moments, atol=1e-9)
    assert known.tokens == 512
    np.testing.assert_allclose(known.absmax, np.abs(rotation.apply(x)).max(axis=0), rtol=1e-12)


def test_seeds_are_what_decides() -> None:
    for make in (hadamard_rotation, random_rotation):
        first, again, other = (make(32, seed=seed).matrix() for seed in (1, 1, 2))
        np.testing.assert_array_equal(first, again)
        assert (first != other).any()


def test_scalings_leave_products_alone_and_statistics_follow() -> None:
    scaling = SmoothQuant(0.7).search([W, 3 * W[:5]], KNOWN)
    x, w = X.astype(np.float64), W.astype(np.float64)
    np.testing.assert_allclose(scaling.inputs(x) @ scaling.weight(w).T, x @ w.T, atol=1e-12)
    known, direct = scaling.statistics(KNOWN), statistics_of(scaling.inputs(x))
    for part in ("minimum", "maximum", "mean_abs", "moments", "inputs"):
        np.testing.assert_allclose(getattr(known, part), getattr(direct, part), atol=1e-10)
    stacked = np.concatenate([W, 3 * W[:5]])
    np.testing.assert_array_equal(
        scaling.factors, SmoothQuant(0.7).search([stacked], KNOWN).factors
    )


def test_gptq_sees_what_was_transformed() -> None:
    """Moments after a transform are those of the inputs that the weight will meet."""
    made = layer(1, heavy=True, out=16, width=64, tokens=512)
    rotation, spec = hadamard_rotation(64), WeightSpec(Integer(3), PerChannel())
    weight = rotation.apply(made.weight)
    found = Gptq().quantize(weight, spec, rotation.statistics(made.known)).tensor.decode()
    plain = MIN_MAX.quantize(weight, spec).tensor.decode()
    inputs = rotation.apply(made.held_out)
    errors = [np.square(inputs @ (each - weight).T).mean() for each in (found, plain)]
    assert errors[0] < errors[1]


ALL = [(seed, heavy) for seed in range(40) for heavy in (False, True)]


@pytest.mark.parametrize(
    ("seed", "heavy"),
    [pytest.param(*each, marks=() if each[0] < 3 else (pytest.mark.nightly,)) for each in ALL],
)
def test_with_outliers_smoothing_and_rotation_always_help(
    seed: int,
    heavy: bool,  # noqa: FBT001
) -> None:
    """80 of 80 in the study: about 0.05 of the error at eight bits, 0.2 to 0.35 at four."""
    made = layer(seed, heavy=heavy)
    smooth = SmoothQuant().search([made.weight], made.known)
    rotation = hadamard_rotation(256, seed=seed)
    for bits, most in ((8, 0.3), (4, 0.6)):
        plain = relative_error(made.held_out, made.weight, bits)
        smoothed = relative_error(smooth.inputs(made.held_out), smooth.weight(made.weight), bits)
        rotated = relative_error(rotation.apply(made.held_out), rotation.apply(made.weight), bits)
        assert max(smoothed, rotated) < most * plain
    awq = Awq().search([made.weight], replace(GROUPS, granularity=PerGroup(64)), made.known)
    assert min(awq.errors) <= awq.errors[0]


@pytest.mark.parametrize("seed", range(3))
def test_flex_is_never_worse_than_the_halves_it_tries(seed: int) -> None:
    made = layer(seed, heavy=False, out=32, width=64, tokens=128)
    found = FlexSmoothQuant().search([made.weight], made.known)
    none = FlexSmoothQuant(steps=1).search([made.weight], made.known)
    assert found.error <= none.error


@pytest.mark.parametrize(
    "known",
    [without_tokens(64), statistics_of(np.zeros((5, 64))), statistics_of(X[0]), KNOWN],
    ids=["no tokens", "inputs of zeros", "one token", "many"],
)
@pytest.mark.parametrize("zeros", [False, True])
def test_hard_cases_have_finite_factors(known: InputStatistics, zeros: bool) -> None:  # noqa: FBT001
    weight = W * (not zeros)
    found = (
        SmoothQuant().search([weight], known),
        FlexSmoothQuant().search([weight], known).scaling,
        Awq().search([weight], GROUPS, known).scaling,
    )
    for each in found:
        assert np.isfinite(each.factors).all()
        unused = np.ones(64, np.bool_) if not known.tokens else known.absmax == 0
        np.testing.assert_array_equal(each.factors[unused], 1)


@pytest.mark.parametrize(
    ("attempt", "code"),
    [
        (lambda: Scaling(np.zeros(3)), "bad-transform"),
        (lambda: Scaling(np.array([1, np.nan])), "bad-transform"),
        (lambda: SmoothQuant(1.5), "bad-transform"),
        (lambda: SmoothQuant(least=0), "bad-transform"),
        (lambda: FlexSmoothQuant(0), "bad-transform"),
        (lambda: Awq(algorithm=Gptq()), "bad-transform"),
        (lambda: SmoothQuant().search([], KNOWN), "bad-transform"),
        (lambda: SmoothQuant().search([W[:, :5]], KNOWN), "bad-statistics"),
        (lambda: SmoothQuant().search([W * np.nan], KNOWN), "values-not-finite"),
        (lambda: FlexSmoothQuant().search([W], statistics_of(X, keep=0)), "statistics-missing"),
        (lambda: Awq().search([W], GROUPS, statistics_of(X, moments=False)), "statistics-missing"),
        (lambda: hadamard_rotation(64, block=24), "bad-transform"),
        (lambda: random_rotation(64, block=12), "bad-transform"),
        (lambda: random_rotation(0), "bad-transform"),
        (lambda: Rotation(np.ones((2, 2)), np.ones(4)), "bad-transform"),
        (lambda: Rotation(np.eye(2), np.array([1.0, 0.5])), "bad-transform"),
        (lambda: hadamard_rotation(64).apply(W[:, :32]), "bad-transform"),
        (lambda: hadamard_rotation(64).statistics(statistics_of(X, keep=0)), "statistics-missing"),
    ],
)
def test_what_is_refused(attempt: Any, code: str) -> None:
    with pytest.raises(GraphError) as refused:
        attempt()
    assert refused.value.code == code
