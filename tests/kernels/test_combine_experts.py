"""Weighted sums of expert rows against float64.

Bound, with u = 2^-24: every product and every partial sum rounds once, partial sums are at most
the sum S of the absolute terms, so k products and n = k + (added rows) additions are off by at
most (n + 1) u S, up to terms in u^2; the store rounds once more by U |sum|.
"""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.combine_experts import (
    CombineExpertsPlan,
    emit_combine_experts,
    plan_combine_experts,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from tests.golden_file import Golden
from tests.kernels.vector_case import FEW_CORES, TARGET, launch, random_array


def _plan(
    columns: int,
    dtype: DType,
    top_k: int,
    *,
    capacity: int = 60,
    added: int = 0,
    target: Target = TARGET,
) -> CombineExpertsPlan:
    return plan_combine_experts(
        rows=DeviceSize(0, capacity),
        columns=columns,
        top_k=top_k,
        dtype=dtype,
        target=target,
        shared=added > 0,
        residual=added > 1,
    )


def _check(plan: CombineExpertsPlan, rows: int) -> None:
    capacity, columns, top_k = plan.rows.capacity, plan.columns, plan.top_k
    pairs = capacity * top_k
    inputs = {
        "y": random_array((pairs, columns), plan.dtype, seed=1),
        "place": np.random.default_rng(2).permutation(pairs).astype(np.int32),
        "weights": random_array((capacity, top_k), DType.F32, seed=3),
    }
    terms = inputs["y"].astype(np.float64)[inputs["place"]].reshape(capacity, top_k, columns)
    terms = terms * inputs["weights"].astype(np.float64)[:, :, None]
    for name, present in (("shared", plan.shared), ("residual", plan.residual)):
        if present:
            inputs[name] = random_array((capacity, columns), plan.dtype, seed=4)
            terms = np.concatenate([terms, inputs[name].astype(np.float64)[:, None, :]], axis=1)
    kernel = emit_combine_experts(plan, "combine_experts")
    out = launch(kernel, inputs, rows)["sum"].reshape(capacity, columns).astype(np.float64)
    expected = terms.sum(axis=1)
    bound = (terms.shape[1] + 1) * DType.F32.unit_roundoff * np.abs(terms).sum(axis=1) * 1.01
    bound += plan.dtype.unit_roundoff * (np.abs(expected) + bound)
    assert (np.abs(out - expected) <= bound)[:rows].all()
    assert np.isnan(out[rows:]).all()


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("columns", [1, 7, 8, 9, 15, 16, 17, 31, 65, 2_048, 2_049, 7_168])
def test_sums_for_every_remainder_of_a_block(columns: int, dtype: DType) -> None:
    for rows in (0, 1, 49, 60):
        _check(_plan(columns, dtype, top_k=2), rows)


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16])
@pytest.mark.parametrize("top_k", [1, 6, 8])
@pytest.mark.parametrize("added", [0, 1, 2])
def test_sums_with_shared_and_residual_rows(top_k: int, added: int, dtype: DType) -> None:
    _check(_plan(72, dtype, top_k, added=added), 60)


@pytest.mark.parametrize("columns", [40, 2_060, 5_000])
def test_a_core_with_many_rows_keeps_their_places(columns: int) -> None:
    plan = _plan(columns, DType.BF16, top_k=3, added=1, target=FEW_CORES)
    for rows in (1, 31, 60):
        _check(plan, rows)


@settings(max_examples=50)
@given(columns=st.integers(1, 20_000), capacity=st.integers(1, 5_000), top_k=st.integers(1, 16))
def test_every_plan_fits_local_memory(columns: int, capacity: int, top_k: int) -> None:
    plan = _plan(columns, DType.BF16, top_k, capacity=capacity, added=2)
    assert local_bytes(plan.buffers) <= TARGET.unified_buffer
    assert plan.pieces == -(-columns // plan.piece)


def test_too_many_rows_are_refused_with_the_numbers() -> None:
    with pytest.raises(GraphError, match=r"combine-experts needs [0-9,]* bytes"):
        _plan(7_168, DType.BF16, 16, capacity=100_000)


def test_golden(golden: Golden) -> None:
    plan = _plan(7_168, DType.BF16, 8, capacity=512, added=2)
    golden.check("ascendc/combine_experts_v3.cpp", emit_combine_experts(plan, "combine").source)
