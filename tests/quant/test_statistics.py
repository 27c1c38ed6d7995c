"""What calibration knows: parts put together, and inputs that are hard."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from ml_dtypes import bfloat16

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.statistics import (
    InputStatistics,
    merged,
    statistics_of,
    without_tokens,
)


@given(seed=st.integers(0, 2**32), cut=st.integers(0, 12), other=st.integers(0, 12))
def test_parts_put_together_are_the_whole(seed: int, cut: int, other: int) -> None:
    x = np.random.default_rng(seed).standard_normal((12, 5)) + 2
    first, second = sorted((cut, other))
    whole = statistics_of(x)
    parts = [statistics_of(each) for each in (x[:first], x[first:second], x[second:])]
    for joined in (
        merged(merged(parts[0], parts[1]), parts[2]),
        merged(parts[0], merged(parts[1], parts[2])),
    ):
        assert joined.tokens == 12
        for name in ("minimum", "maximum", "absmax"):
            np.testing.assert_array_equal(getattr(joined, name), getattr(whole, name))
        for name in ("mean_abs", "moments", "inputs"):
            np.testing.assert_allclose(getattr(joined, name), getattr(whole, name), rtol=1e-12)


def test_against_formulas() -> None:
    x = np.random.default_rng(0).standard_normal((3, 7, 4)).astype(np.float32)
    known, rows = statistics_of(x), x.reshape(-1, 4).astype(np.float64)
    assert known.tokens == 21
    np.testing.assert_array_equal(known.absmax, np.abs(rows).max(axis=0))
    np.testing.assert_allclose(known.mean_abs, np.abs(rows).mean(axis=0), rtol=1e-14)
    assert known.moments is not None
    np.testing.assert_allclose(known.moments, sum(np.outer(r, r) for r in rows), rtol=1e-12)
    assert known.inputs is not None
    np.testing.assert_array_equal(known.inputs, rows)


def test_one_token_without_an_axis_is_one_token() -> None:
    token = np.array([1.0, -2.0, 0.0])
    known = statistics_of(token)
    assert known.tokens == 1
    np.testing.assert_array_equal(known.moments, np.outer(token, token))
    np.testing.assert_array_equal(known.moments, statistics_of(token[None]).moments)


def test_a_sample_is_spread_over_all_tokens() -> None:
    known = statistics_of(np.arange(1000.0)[:, None], keep=5)
    assert known.inputs is not None
    assert known.inputs.ravel().tolist() == [0, 249, 499, 749, 999]
    bare = statistics_of(np.ones((4, 2)), moments=False, keep=0)
    assert (bare.has("moments"), bare.has("inputs"), bare.has("absmax")) == (False, False, True)
    assert merged(bare, statistics_of(np.ones((4, 2)))).moments is None


def test_no_tokens_have_zeros() -> None:
    known = without_tokens(3)
    assert known.tokens == 0
    assert not known.absmax.any()
    negative = merged(known, statistics_of(-np.ones((2, 3))))
    np.testing.assert_array_equal(negative.maximum, -1)
    assert merged(known, known).tokens == 0


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_activations_that_overflowed_are_refused_with_their_channel(bad: float) -> None:
    x = np.ones((4, 6), bfloat16)
    x[2, 3] = bad
    with pytest.raises(GraphError, match=r"1 of 24 calibration values .* channel 3") as refused:
        statistics_of(x)
    assert refused.value.code == "values-not-finite"


def test_parts_that_do_not_fit() -> None:
    known = statistics_of(np.ones((2, 3)))
    attempts: tuple[Any, ...] = (
        lambda: merged(known, statistics_of(np.ones((2, 4)))),
        lambda: replace(known, moments=np.ones((3, 2))),
        lambda: replace(known, tokens=-1),
        lambda: replace(known, inputs=np.ones((2, 4))),
        lambda: InputStatistics(1, np.ones(3), np.ones(2), np.ones(3)),
        lambda: statistics_of(np.array(1.0)),
    )
    for attempt in attempts:
        with pytest.raises(GraphError) as refused:
            attempt()
        assert refused.value.code == "bad-statistics"
