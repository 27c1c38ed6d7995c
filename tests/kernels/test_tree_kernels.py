"""The kernels behind a step with draft trees do what their operations say, for any places."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.move_entries import (
    MoveEntriesPlan,
    emit_move_entries,
    plan_move_entries,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.kernels.verify_tree import emit_verify_tree, plan_verify_tree
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.ops import MoveEntries
from ascendfx.ir.tensor_type import DType
from tests.golden_file import Golden
from tests.ir.tree_cases import move_case, trees, verify_tree_case
from tests.kernels.place_kernels import check
from tests.kernels.place_kernels import run as run_places
from tests.kernels.vector_case import FEW_CORES, TARGET, build, sizes

_WIDE = (-1, *(0,) * 15)
_CHAIN = tuple(range(-1, 15))


@pytest.mark.parametrize(
    ("capacity", "requests", "parents"),
    [(2, 9, (-1,)), (20, 20, _WIDE), (256, 256, (-1, 0, 0, 1, 1, 2)), (300, 300, _CHAIN)],
)
@settings(max_examples=12)
@given(data=st.data())
def test_paths_are_verified(
    capacity: int, requests: int, parents: tuple[int, ...], data: st.DataObject
) -> None:
    capacity = max(capacity, requests)
    target = FEW_CORES if requests == 300 else TARGET
    op, operands = data.draw(verify_tree_case(requests=requests, parents=parents))
    plan = plan_verify_tree(requests=DeviceSize(1, capacity), parents=parents, target=target)
    kernel = emit_verify_tree(plan, "verify_tree")
    check(run_places(kernel, operands, {"requests": requests}), op.reference(*operands))


@settings(max_examples=4)
@given(parents=trees(), data=st.data())
def test_any_tree_is_verified(parents: tuple[int, ...], data: st.DataObject) -> None:
    op, operands = data.draw(verify_tree_case(requests=50, parents=parents))
    plan = plan_verify_tree(requests=DeviceSize(1, 50), parents=parents, target=TARGET)
    kernel = emit_verify_tree(plan, "verify_tree")
    check(run_places(kernel, operands, {"requests": 50}), op.reference(*operands))


def _plan(
    op: MoveEntries, operands: list[Array], capacity: int, dtype: DType, target: Target
) -> MoveEntriesPlan:
    *caches, table, _, _ = operands
    blocks, block, _ = caches[0].shape
    return plan_move_entries(
        requests=DeviceSize(1, capacity),
        nodes=op.nodes,
        columns=[cache.shape[2] for cache in caches],
        cache_blocks=blocks,
        block=block,
        table_blocks=table.shape[1],
        dtype=dtype,
        target=target,
    )


_MOVED = [
    (1, 3, 1, (5,)),
    (4, 6, 3, (24, 8)),
    (20, 16, 5, (70, 64, 1)),
    (60, 4, 128, (8, 8)),
    (40, 1, 2, (16,)),
]


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=lambda each: each.value)
@pytest.mark.parametrize(("requests", "nodes", "block", "columns"), _MOVED)
@settings(max_examples=8)
@given(data=st.data())
def test_entries_are_moved(
    dtype: DType,
    requests: int,
    nodes: int,
    block: int,
    columns: tuple[int, ...],
    data: st.DataObject,
) -> None:
    op, operands = data.draw(
        move_case(requests=requests, nodes=nodes, block=block, columns=columns)
    )
    operands[:-3] = [cache.astype(dtype.numpy) for cache in operands[:-3]]
    target = FEW_CORES if requests == 60 else TARGET
    kernel = emit_move_entries(_plan(op, operands, requests, dtype, target), "move_entries")
    found = [cache.reshape(-1).copy() for cache in operands[:-3]]
    numbers = [each.astype(np.int32).reshape(-1) for each in operands[-3:]]
    build(kernel).launch([*found, *numbers, sizes(requests=requests)])
    for flat, wanted in zip(found, op.reference(*operands), strict=True):
        np.testing.assert_array_equal(flat.view(np.uint8), wanted.reshape(-1).view(np.uint8))


@settings(max_examples=10)
@given(case=move_case(requests=20, nodes=5, block=3, columns=(3,)), requests=st.integers(0, 20))
def test_places_behind_the_requests_move_nothing(
    case: tuple[MoveEntries, list[Array]], requests: int
) -> None:
    op, (cache, table, state, path) = case
    cache = cache.astype(np.float32)
    plan = _plan(op, [cache, table, state, path], 20, DType.F32, TARGET)
    flat = cache.reshape(-1).copy()
    numbers = [each.astype(np.int32).reshape(-1) for each in (table, state, path)]
    kernel = build(emit_move_entries(plan, "move_entries"))
    kernel.launch([flat, *numbers, sizes(requests=requests)])
    (wanted,) = op.reference(cache, table[:requests], state[:requests], path[:requests])
    np.testing.assert_array_equal(flat, wanted.reshape(-1))


def test_entries_that_do_not_fit_are_refused() -> None:
    cache = np.zeros((9, 128, 8_192))
    table = np.zeros((3, 3))
    with pytest.raises(GraphError, match="move-entries needs") as caught:
        _plan(MoveEntries(16), [cache, table, table, table], 3, DType.BF16, TARGET)
    assert (caught.value.code, caught.value.hint) == (
        "tile-too-large",
        "use a smaller tree of drafts",
    )


@settings(max_examples=60)
@given(
    requests=st.integers(1, 4_096),
    parents=trees(),
    block=st.integers(1, 256),
    table_blocks=st.integers(1, 10_000),
)
def test_every_plan_fits_local_memory(
    requests: int, parents: tuple[int, ...], block: int, table_blocks: int
) -> None:
    places = DeviceSize(1, requests)
    verify = plan_verify_tree(requests=places, parents=parents, target=TARGET)
    move = plan_move_entries(
        requests=places,
        nodes=len(parents),
        columns=(512, 64),
        cache_blocks=9,
        block=block,
        table_blocks=table_blocks,
        dtype=DType.F32,
        target=TARGET,
    )
    for plan in (verify, move):
        assert local_bytes(plan.buffers) <= TARGET.unified_buffer
        assert plan.blocks <= TARGET.vector_cores


def test_goldens(golden: Golden) -> None:
    requests, parents = DeviceSize(1, 64), (-1, 0, 0, 1, 1, 2)
    verify = plan_verify_tree(requests=requests, parents=parents, target=TARGET)
    golden.check("ascendc/verify_tree.cpp", emit_verify_tree(verify, "verify").source)
    move = plan_move_entries(
        requests=requests,
        nodes=6,
        columns=(512, 64, 512, 64),
        cache_blocks=200,
        block=128,
        table_blocks=9,
        dtype=DType.BF16,
        target=TARGET,
    )
    golden.check("ascendc/move_entries.cpp", emit_move_entries(move, "move").source)
