"""The score of msModelSlim: its number for a weight, and what it must not depend on."""

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.mixed_precision.iqr_score import iqr_score
from tests.quant.reference_vectors import vectors

REFERENCE = 0.07051821798086166
"""Of `W`, by the formula in float64; max 0.24208970..., quartiles -0.01387... and 0.01316..."""


def test_the_weight_of_the_vectors_has_its_score() -> None:
    assert iqr_score(vectors("round_to_nearest")["W"]) == pytest.approx(REFERENCE, rel=1e-6)


def test_quartiles_are_those_of_sorted_numbers() -> None:
    # sorted: 0 1 2 3 4 5 6 7 8; n // 4 = 2, 3 (n // 4) = 6
    values = np.array([3, 8, 0, 5, 1, 7, 2, 6, 4])
    assert iqr_score(values) == pytest.approx((2 * 8 / 254) / (6 - 2))


def test_it_is_free_of_scale_and_order() -> None:
    values = np.random.default_rng(3).standard_normal(1000)
    true = iqr_score(values)
    assert iqr_score(values[::-1].reshape(10, 100) * 1024) == pytest.approx(true)
    values[7] = 100
    assert iqr_score(values) > 10 * true


def test_equal_numbers_are_as_bad_as_can_be() -> None:
    assert iqr_score(np.ones(8)) == pytest.approx(1 / 127 / 1e-10)


@pytest.mark.parametrize(
    ("values", "code"), [([], "bad-statistics"), ([1.0, float("nan")], "values-not-finite")]
)
def test_what_has_no_quartiles_is_told(values: list[float], code: str) -> None:
    with pytest.raises(GraphError, match=code):
        iqr_score(np.array(values))
