"""The order of pairs by expert, exactly and stably."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.dispatch_experts import (
    DispatchExpertsPlan,
    emit_dispatch_experts,
    plan_dispatch_experts,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.ops import DispatchExperts
from tests.golden_file import Golden
from tests.kernels.vector_case import TARGET, Array, launch


def _plan(capacity: int, top_k: int, experts: int) -> DispatchExpertsPlan:
    return plan_dispatch_experts(
        rows=DeviceSize(0, capacity), top_k=top_k, experts=experts, target=TARGET
    )


def _check(plan: DispatchExpertsPlan, ids: Array, rows: int) -> None:
    out = launch(emit_dispatch_experts(plan, "dispatch_experts"), {"ids": ids}, rows)
    pairs = rows * plan.top_k
    used = ids[:rows].astype(np.int64)
    source_row, place, ends = DispatchExperts(plan.experts).reference(used)
    np.testing.assert_array_equal(out["group_ends"], ends)
    np.testing.assert_array_equal(out["source_row"][:pairs], source_row)
    np.testing.assert_array_equal(out["place"][:pairs], place)
    assert (out["source_row"][pairs:] == -1).all()
    assert (out["place"][pairs:] == -1).all()


@pytest.mark.parametrize(
    ("capacity", "top_k", "experts"),
    [(40, 2, 8), (40, 1, 1), (70, 6, 64), (64, 8, 256), (33, 3, 100), (100, 8, 31), (100, 5, 33)],
)
def test_pairs_are_ordered_by_expert(capacity: int, top_k: int, experts: int) -> None:
    ids = np.random.default_rng(0).integers(0, experts, (capacity, top_k)).astype(np.int32)
    plan = _plan(capacity, top_k, experts)
    for rows in (0, 1, 17, capacity):
        _check(plan, ids, rows)


@pytest.mark.parametrize("expert", [0, 3, 7])
def test_all_pairs_on_one_expert_keep_their_order(expert: int) -> None:
    _check(_plan(300, 2, 8), np.full((300, 2), expert, np.int32), 300)


def test_a_prefill_chunk_of_4096_pairs() -> None:
    ids = np.random.default_rng(1).integers(0, 256, (512, 8)).astype(np.int32)
    for rows in (129, 512):
        _check(_plan(512, 8, 256), ids, rows)


@pytest.mark.parametrize("rows", [64, 65, 72, 73, 80, 192, 193, 200])
def test_lists_that_have_no_neighbours_to_merge_with(rows: int) -> None:
    ids = np.random.default_rng(rows).integers(0, 33, (300, 8)).astype(np.int32)
    _check(_plan(300, 8, 33), ids, rows)


@settings(max_examples=50)
@given(capacity=st.integers(1, 5_000), top_k=st.integers(1, 8), experts=st.integers(1, 256))
def test_every_plan_fits_local_memory(capacity: int, top_k: int, experts: int) -> None:
    plan = _plan(capacity, top_k, experts)
    assert local_bytes(plan.buffers) <= TARGET.unified_buffer
    assert plan.slots % 64 == 0
    assert plan.first_pair + plan.tile_rows * top_k <= plan.slots
    assert experts * plan.key_step <= 1 << 24


@pytest.mark.parametrize(
    ("capacity", "top_k", "experts"), [(1_024, 8, 256), (3_000, 4, 60), (10_000, 1, 8)]
)
def test_more_pairs_than_fit_go_tile_by_tile(capacity: int, top_k: int, experts: int) -> None:
    random = np.random.default_rng(capacity)
    ids = random.integers(0, experts, (capacity, top_k)) ** 2 // experts
    plan = _plan(capacity, top_k, experts)
    assert plan.is_tiled
    for rows in (0, 1, plan.tile_rows, plan.tile_rows + 1, capacity):
        _check(plan, ids.astype(np.int32), rows)


def test_more_experts_than_fit_are_refused_with_the_numbers() -> None:
    with pytest.raises(GraphError, match=r"dispatch-experts needs [0-9,]* bytes"):
        _plan(1_024, 8, 9_000)


def test_golden(golden: Golden) -> None:
    kernel = emit_dispatch_experts(_plan(512, 8, 256), "dispatch")
    golden.check("ascendc/dispatch_experts_v3.cpp", kernel.source)


def test_golden_of_a_tiled_step(golden: Golden) -> None:
    kernel = emit_dispatch_experts(_plan(4_096, 8, 256), "dispatch")
    golden.check("ascendc/dispatch_experts_tiled.cpp", kernel.source)
