"""Lookup tables: least error against all partitions, and rows that are hard."""

from dataclasses import replace
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms import weighted_k_means as module
from ascendfx.quant_passes.algorithms.lookup_table import LookupTable, TableTensor
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec
from ascendfx.quant_passes.algorithms.weighted_k_means import places_of, weighted_k_means
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import PerBlock, PerChannel, PerGroup
from ascendfx.quant_passes.scaling.scale_rule import ScaleRule
from ascendfx.quant_passes.statistics import without_tokens
from tests.quant.algorithms.layers import layer


def least_error(values: Any, mass: Any, k: int) -> float:
    """Return the least error over all ways to cut the sorted numbers into ``k`` parts."""
    order = np.argsort(values)
    values, mass = values[order], mass[order]

    def part(low: int, high: int) -> float:
        x, m = values[low:high], mass[low:high]
        return float((m * np.square(x - (m * x).sum() / m.sum())).sum()) if m.sum() else 0.0

    cuts = combinations(range(1, len(values)), k - 1)
    return min(
        sum(part(*pair) for pair in zip((0, *cut), (*cut, len(values)), strict=True))
        for cut in cuts
    )


@given(seed=st.integers(0, 2**32), k=st.integers(1, 4), holes=st.booleans())
def test_no_partition_is_better(seed: int, k: int, holes: bool) -> None:  # noqa: FBT001
    random = np.random.default_rng(seed)
    rows = random.standard_normal((3, 9))
    rows[1] = np.round(rows[1])  # equal numbers
    mass = random.random((3, 9))
    if holes:
        mass[:, ::3] = 0
    centres = weighted_k_means(rows, mass, k)
    assert (np.diff(centres, axis=1) >= 0).all()
    nearest = np.square(rows[:, :, None] - centres[:, None]).min(axis=2)
    for row in range(3):
        found = float((mass[row] * nearest[row]).sum())
        assert found <= least_error(rows[row], mass[row], k) + 1e-12


def test_long_rows_come_near_to_the_least_error(monkeypatch: pytest.MonkeyPatch) -> None:
    random = np.random.default_rng(0)
    rows = random.standard_normal((2, 500)) * np.exp(0.6 * random.standard_normal((2, 500)))
    mass = np.exp(random.standard_normal((2, 500)))

    def error() -> Any:
        centres = weighted_k_means(rows, mass, 16)
        return (mass * np.square(rows[:, :, None] - centres[:, None]).min(axis=2)).sum(axis=1)

    near = error()
    monkeypatch.setattr(module, "_PLACES", 500)
    assert (near <= 1.05 * error()).all()


@pytest.mark.parametrize("bits", [5, 6, 8])
def test_many_centres_of_long_rows_are_much_better_than_equal_steps(bits: int) -> None:
    weight = np.random.default_rng(0).standard_normal((3, 3000))
    spec = WeightSpec(Integer(bits), PerChannel())
    found = LookupTable(weighted=False).quantize(weight, spec).tensor
    equal = MIN_MAX.quantize(weight, replace(spec, rule=ScaleRule(symmetric=False))).tensor
    assert found.squared_error(weight) < 0.6 * equal.squared_error(weight)
    assert len(np.unique(found.decode()[0])) > 0.9 * 2**bits


def test_places_by_bisection() -> None:
    random = np.random.default_rng(1)
    rows = np.sort(random.integers(0, 9, (5, 13)).astype(np.float64), axis=1)
    wanted = random.integers(-2, 11, (5, 6)).astype(np.float64)
    expected = [np.searchsorted(row, each) for row, each in zip(rows, wanted, strict=True)]
    np.testing.assert_array_equal(places_of(rows, wanted), expected)


def test_tables_of_groups_and_their_size() -> None:
    made = layer(2, heavy=True, out=6, width=64, tokens=64)
    for granularity, tables in ((PerChannel(), 6), (PerGroup(32), 12)):
        rule = ScaleRule(stored=DType.BF16)
        found = LookupTable().quantize(
            made.weight, WeightSpec(Integer(3), granularity, rule), made.known
        )
        tensor = found.tensor
        assert isinstance(tensor, TableTensor)
        assert tensor.bytes == 6 * 64 * 3 // 8 + tables * 8 * 2
        decoded = tensor.decode(DType.F64)
        np.testing.assert_array_equal(decoded, tensor.decode(DType.BF16).astype(np.float64))
        assert all(len(np.unique(row)) <= 8 * tables // 6 for row in decoded)
        off = float(np.square(decoded - made.weight).sum())
        assert tensor.squared_error(made.weight) == pytest.approx(off)


def test_rows_with_few_values_are_exact() -> None:
    weight = np.random.default_rng(0).integers(-3, 4, (5, 40)) * 0.25
    spec = WeightSpec(Integer(3), PerChannel(), ScaleRule(stored=DType.F64))
    found = LookupTable(weighted=False).quantize(weight, spec)
    # Means are differences of sums of 40 numbers below 1, over at least 1.
    np.testing.assert_allclose(found.tensor.decode(DType.F64), weight, atol=40 * 2.0**-52)


def test_what_a_table_cannot_be() -> None:
    weight = np.ones((4, 8))
    with pytest.raises(GraphError, match="treats rows one by one"):
        LookupTable(weighted=False).quantize(weight, WeightSpec(Integer(4), PerBlock(2, 4)))
    with pytest.raises(GraphError, match="lookup_table needs moments"):
        LookupTable().quantize(weight, WeightSpec(Integer(4), PerChannel()))
    found = LookupTable().quantize(weight, WeightSpec(Integer(4), PerChannel()), without_tokens(8))
    assert "no inputs, so all weights count alike" in str(found.remarks[0])
