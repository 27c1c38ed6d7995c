"""The kernels that prepare steps with draft trees do what their operations say."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.advance_requests import (
    emit_advance_requests,
    plan_advance_requests,
)
from ascendfx.codegen.ascendc.kernels.align_drafts import emit_align_drafts, plan_align_drafts
from ascendfx.codegen.ascendc.kernels.branch_drafts import emit_branch_drafts, plan_branch_drafts
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.op import Array
from ascendfx.ir.ops import AdvanceRequests, AlignDrafts, BranchDrafts
from ascendfx.ir.tensor_type import DType
from tests.golden_file import Golden
from tests.ir.tree_cases import advance_tree_case, align_tree_case, branch_case, trees
from tests.kernels.place_kernels import check, run
from tests.kernels.vector_case import FEW_CORES, TARGET

_WIDE = (-1, *(0,) * 15)
_CHAIN = tuple(range(-1, 8))
_SPINE = DraftTree((3, 2, 1)).parents
V3 = 129_280


def _advance(op: AdvanceRequests, operands: list[Array], capacity: int, target: Target) -> Kernel:
    plan = plan_advance_requests(
        requests=DeviceSize(1, capacity),
        drafts=op.drafts,
        block=op.block,
        table_blocks=operands[3].shape[1],
        steps=len(operands[8]),
        counted=len(operands[10]),
        vocabulary=operands[10].shape[1],
        drafting=len(operands) > op.fixed,
        parents=op.parents,
        target=target,
    )
    return emit_advance_requests(plan, "advance_requests")


@pytest.mark.parametrize(
    ("requests", "parents", "block"),
    [(1, (-1,), 128), (5, _WIDE, 2), (33, _CHAIN, 3), (64, _SPINE, 4), (300, _SPINE, 128)],
)
@settings(max_examples=12)
@given(data=st.data())
def test_requests_advance(
    requests: int, parents: tuple[int, ...], block: int, data: st.DataObject
) -> None:
    op, operands = data.draw(advance_tree_case(requests=requests, parents=parents, block=block))
    target = FEW_CORES if requests == 300 else TARGET
    kernel = _advance(op, operands, requests, target)
    check(run(kernel, operands, {"requests": requests}), op.reference(*operands))


@settings(max_examples=4)
@given(parents=trees(), data=st.data())
def test_requests_advance_in_any_tree(parents: tuple[int, ...], data: st.DataObject) -> None:
    op, operands = data.draw(advance_tree_case(requests=40, parents=parents, block=4))
    kernel = _advance(op, operands, 40, TARGET)
    check(run(kernel, operands, {"requests": 40}), op.reference(*operands))


def _align(op: AlignDrafts, operands: list[Array], capacity: int, target: Target) -> Kernel:
    plan = plan_align_drafts(
        requests=DeviceSize(1, capacity),
        drafts=op.drafts,
        nodes=op.nodes,
        block=op.block,
        table_blocks=operands[1].shape[1],
        target=target,
    )
    return emit_align_drafts(plan, "align_drafts")


@pytest.mark.parametrize(
    ("requests", "parents", "block"),
    [(9, (-1, 0, 0), 3), (20, _CHAIN, 128), (256, _SPINE, 4), (300, (-1, 0, 0, 1), 1)],
)
@settings(max_examples=12)
@given(data=st.data())
def test_rows_of_drafts_are_aligned(
    requests: int, parents: tuple[int, ...], block: int, data: st.DataObject
) -> None:
    op, operands = data.draw(align_tree_case(requests=requests, parents=parents, block=block))
    target = FEW_CORES if requests == 300 else TARGET
    found = run(_align(op, operands, requests, target), operands, {"requests": requests})
    ids, positions, slots, last, kept, hidden, recent = op.reference(*operands)
    check(found, (recent, ids, positions, slots, last, kept, hidden))


def _branch(op: BranchDrafts, columns: int, dtype: DType, capacity: int, target: Target) -> Kernel:
    plan = plan_branch_drafts(
        requests=DeviceSize(1, capacity),
        depth=op.depth,
        branches=op.branches,
        columns=columns,
        dtype=dtype,
        target=target,
    )
    assert local_bytes((*plan.tables, *plan.buffers)) <= target.unified_buffer
    return emit_branch_drafts(plan, "branch_drafts")


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=lambda each: each.value)
@pytest.mark.parametrize(
    ("requests", "branches", "columns"),
    [(1, 1, 1), (20, 15, 7), (60, 3, 33), (50, 2, 1_500), (30, 4, 9_001)],
)
@settings(max_examples=6)
@given(data=st.data())
def test_the_best_candidates_are_drafted(
    dtype: DType, requests: int, branches: int, columns: int, data: st.DataObject
) -> None:
    op, operands = data.draw(branch_case(requests=requests, branches=branches, columns=columns))
    target = FEW_CORES if requests == 60 else TARGET
    kernel = _branch(op, columns, dtype, requests + 3, target)
    given_logits = [operands[0].astype(dtype.numpy), *operands[1:]]
    check(run(kernel, given_logits, {"requests": requests}), op.reference(*operands))


@pytest.mark.parametrize("dtype", [DType.F32, DType.BF16], ids=lambda each: each.value)
def test_the_vocabulary_of_deepseek_v3(dtype: DType) -> None:
    random = np.random.default_rng(0)
    logits = (random.standard_normal((6, V3)) * 4).astype(dtype.numpy)
    state, stops = np.zeros((6, 16), np.int64), np.full((6, 8), -1)
    op, accepted = BranchDrafts(0, 5), np.zeros(6, np.int64)
    kernel = _branch(op, V3, dtype, 6, TARGET)
    found = run(kernel, [logits, state, stops, accepted], {"requests": 6})
    check(found, op.reference(logits.astype(np.float64), state, stops, accepted))


@settings(max_examples=40)
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
    sizes = {"block": block, "table_blocks": table_blocks}
    advance = plan_advance_requests(
        requests=places,
        drafts=len(parents) - 1,
        steps=8,
        counted=requests,
        vocabulary=V3,
        drafting=True,
        parents=parents,
        target=TARGET,
        **sizes,
    )
    align = plan_align_drafts(
        requests=places, drafts=1, nodes=max(2, len(parents)), target=TARGET, **sizes
    )
    for plan in (advance, align):
        assert local_bytes(plan.buffers) <= TARGET.unified_buffer
        assert plan.blocks <= TARGET.vector_cores


def test_a_vocabulary_that_cannot_be_sorted_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        _branch(BranchDrafts(0, 2), 1 << 25, DType.F32, 3, TARGET)
    assert caught.value.code == "vocabulary-too-large"


def test_goldens(golden: Golden) -> None:
    requests, tree = DeviceSize(1, 64), DraftTree((3, 2))
    sizes = {"block": 128, "table_blocks": 9}
    advance = plan_advance_requests(
        requests=requests,
        drafts=tree.drafts,
        steps=8,
        counted=64,
        vocabulary=V3,
        drafting=True,
        parents=tree.parents,
        target=TARGET,
        **sizes,
    )
    golden.check(
        "ascendc/advance_requests_tree.cpp", emit_advance_requests(advance, "advance").source
    )
    align = plan_align_drafts(requests=requests, drafts=2, nodes=6, target=TARGET, **sizes)
    golden.check("ascendc/align_drafts_tree.cpp", emit_align_drafts(align, "align").source)
    branch = plan_branch_drafts(
        requests=requests, depth=1, branches=2, columns=V3, dtype=DType.BF16, target=TARGET
    )
    golden.check("ascendc/branch_drafts.cpp", emit_branch_drafts(branch, "branch").source)
