"""The kernels between two steps do what their operations say, for any places."""

import itertools
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize, KernelKind
from ascendfx.codegen.ascendc.kernels.advance_requests import (
    AdvanceRequestsPlan,
    emit_advance_requests,
    plan_advance_requests,
)
from ascendfx.codegen.ascendc.kernels.align_drafts import emit_align_drafts, plan_align_drafts
from ascendfx.codegen.ascendc.kernels.shift_tokens import emit_shift_tokens, plan_shift_tokens
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.kernels.verify_drafts import emit_verify_drafts, plan_verify_drafts
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.ops import AdvanceRequests, ShiftTokens
from tests.golden_file import Golden
from tests.ir.step_cases import advance_case, align_case, shift_case, verify_case
from tests.kernels.place_kernels import check, run
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, build, sizes

_VERIFIED = [(2, 9, 1), (20, 20, 8), (256, 256, 3), (40, 33, 0), (300, 300, 1)]


@pytest.mark.parametrize(("capacity", "requests", "drafts"), _VERIFIED)
@settings(max_examples=12)
@given(data=st.data())
def test_drafts_are_verified(
    capacity: int, requests: int, drafts: int, data: st.DataObject
) -> None:
    capacity = max(capacity, requests)
    target = FEW_CORES if requests == 300 else TARGET
    op, operands = data.draw(verify_case(requests=requests, drafts=drafts))
    plan = plan_verify_drafts(requests=DeviceSize(1, capacity), drafts=drafts, target=target)
    kernel = emit_verify_drafts(plan, "verify_drafts")
    check(run(kernel, operands, {"requests": requests}), op.reference(*operands))


_ALIGNED = [(2, 9, 1, 3), (20, 20, 8, 128), (256, 256, 3, 4), (300, 300, 2, 1)]


@pytest.mark.parametrize(("capacity", "requests", "drafts", "block"), _ALIGNED)
@settings(max_examples=12)
@given(data=st.data())
def test_rows_of_drafts_are_aligned(
    capacity: int, requests: int, drafts: int, block: int, data: st.DataObject
) -> None:
    capacity = max(capacity, requests)
    target = FEW_CORES if requests == 300 else TARGET
    op, operands = data.draw(align_case(requests=requests, drafts=drafts, block=block))
    plan = plan_align_drafts(
        requests=DeviceSize(1, capacity),
        drafts=drafts,
        block=block,
        table_blocks=operands[1].shape[1],
        target=target,
    )
    found = run(emit_align_drafts(plan, "align_drafts"), operands, {"requests": requests})
    ids, positions, slots, last, kept, hidden, recent = op.reference(*operands)
    check(found, (recent, ids, positions, slots, last, kept, hidden))


@pytest.mark.parametrize(("rows", "requests"), [(1, 1), (7, 3), (64, 32), (300, 9), (512, 256)])
@settings(max_examples=20)
@given(data=st.data())
def test_tokens_are_shifted(rows: int, requests: int, data: st.DataObject) -> None:
    op, operands = data.draw(shift_case(rows=rows, requests=requests))
    columns = operands[4].shape[1] if op.known else 0
    _check_shift(op, operands, columns, rows + 3, TARGET)


def _check_shift(
    op: ShiftTokens, operands: list[Array], columns: int, capacity: int, target: Target
) -> None:
    rows, requests = len(operands[0]), len(operands[1])
    plan = plan_shift_tokens(
        rows=DeviceSize(0, capacity),
        requests=DeviceSize(1, requests + 2),
        depth=op.depth if columns else 0,
        known=columns,
        target=target,
    )
    kernel = emit_shift_tokens(plan, "shift_tokens")
    found = run(kernel, operands, {"rows": rows, "requests": requests})
    check(found, op.reference(*operands))


@settings(max_examples=4)
@given(case=shift_case(rows=3_000, requests=5))
def test_a_core_shifts_its_rows_in_steps(case: tuple[ShiftTokens, list[Array]]) -> None:
    op, operands = case
    columns = operands[4].shape[1] if op.known else 0
    _check_shift(op, operands, columns, 3_000, FEW_CORES)


def _plan(
    op: AdvanceRequests, operands: list[Array], capacity: int, target: Target = TARGET
) -> AdvanceRequestsPlan:
    return plan_advance_requests(
        requests=DeviceSize(1, capacity),
        drafts=op.drafts,
        block=op.block,
        table_blocks=operands[3].shape[1],
        steps=len(operands[8]),
        counted=len(operands[10]),
        vocabulary=operands[10].shape[1],
        drafting=len(operands) > 12,
        target=target,
    )


_ADVANCED = [(1, 0, 128), (4, 1, 1), (5, 4, 2), (32, 1, 128), (33, 3, 3), (256, 1, 128)]


@pytest.mark.parametrize(("requests", "drafts", "block"), _ADVANCED)
@settings(max_examples=15)
@given(data=st.data())
def test_requests_advance(requests: int, drafts: int, block: int, data: st.DataObject) -> None:
    op, operands = data.draw(advance_case(requests=requests, drafts=drafts, block=block))
    kernel = emit_advance_requests(_plan(op, operands, requests), "advance_requests")
    assert (kernel.kind is KernelKind.SYNCED_VECTOR) == (requests > 4)
    check(run(kernel, operands, {"requests": requests}), op.reference(*operands))


@settings(max_examples=4)
@given(case=advance_case(requests=300, drafts=2, block=4))
def test_a_core_advances_its_places_in_steps(case: tuple[AdvanceRequests, list[Array]]) -> None:
    op, operands = case
    plan = _plan(op, operands, 300, FEW_CORES)
    assert plan.step * plan.blocks < 300
    kernel = emit_advance_requests(plan, "advance_requests")
    check(run(kernel, operands, {"requests": 300}), op.reference(*operands))


@settings(max_examples=10)
@given(data=st.data(), requests=st.integers(0, 20))
def test_places_behind_the_requests_are_left_alone(data: st.DataObject, requests: int) -> None:
    op, operands = data.draw(advance_case(requests=20, drafts=2, block=4))
    names = "token_ids", "positions", "slots", "state"
    kernel = emit_advance_requests(_plan(op, operands, 20), "advance_requests")
    found = run(kernel, operands, {"requests": requests})
    whole = op.reference(*operands)
    for name, tensor, new, old in zip(
        names, found, whole, (operands[i] for i in op.in_place.values()), strict=False
    ):
        cut = len(tensor) // 20 * requests
        np.testing.assert_array_equal(tensor[:cut], new.reshape(-1)[:cut], err_msg=name)
        np.testing.assert_array_equal(tensor[cut:], old.reshape(-1)[cut:], err_msg=name)
    assert found[5][0] == operands[9][0] + 1


@settings(max_examples=10)
@given(case=advance_case(requests=40, drafts=3, block=4))
def test_only_tokens_of_requests_with_penalties_touch_the_counts(
    case: tuple[AdvanceRequests, list[Array]],
) -> None:
    """An element each, the same one several times if it has to be."""
    op, operands = case
    kernel = emit_advance_requests(_plan(op, operands, 40), "advance_requests")
    numbers = zip(operands, kernel.arguments, strict=False)
    tensors = [each.reshape(-1).astype(argument.dtype.numpy) for each, argument in numbers]
    plain = [each.copy() for each in tensors]
    plain[11][:] = 0
    few = build(kernel).launch([*plain, sizes(requests=40)])
    np.testing.assert_array_equal(plain[10], tensors[10])
    many = build(kernel).launch([*tensors, sizes(requests=40)])
    added = tensors[10].sum() - plain[10].sum()
    assert many.bytes["MTE3"] - few.bytes["MTE3"] == 4 * added / 2


@settings(max_examples=60)
@given(
    requests=st.integers(1, 4_096),
    drafts=st.integers(0, 8),
    block=st.integers(1, 256),
    table_blocks=st.integers(1, 10_000),
    steps=st.integers(1, 64),
    drafting=st.booleans(),
)
def test_every_plan_fits_local_memory(
    requests: int, drafts: int, block: int, table_blocks: int, steps: int, *, drafting: bool
) -> None:
    places = DeviceSize(1, requests)
    advance = plan_advance_requests(
        requests=places,
        drafts=drafts,
        block=block,
        table_blocks=table_blocks,
        steps=steps,
        counted=requests,
        vocabulary=129_280,
        drafting=drafting,
        target=TARGET,
    )
    verify = plan_verify_drafts(requests=places, drafts=drafts, target=TARGET)
    rows = DeviceSize(0, requests * (drafts + 1))
    shift = plan_shift_tokens(rows=rows, requests=places, depth=0, known=0, target=TARGET)
    for plan in (advance, verify, shift):
        assert local_bytes(plan.buffers) <= TARGET.unified_buffer
        assert plan.blocks <= TARGET.vector_cores


def test_goldens(golden: Golden) -> None:
    requests = DeviceSize(1, 64)
    verify = plan_verify_drafts(requests=requests, drafts=1, target=TARGET)
    golden.check("ascendc/verify_drafts.cpp", emit_verify_drafts(verify, "verify").source)
    align = plan_align_drafts(requests=requests, drafts=2, block=128, table_blocks=9, target=TARGET)
    golden.check("ascendc/align_drafts.cpp", emit_align_drafts(align, "align").source)
    for known in (0, 2):
        shift = plan_shift_tokens(
            rows=DeviceSize(0, 128), requests=requests, depth=known // 2, known=known, target=TARGET
        )
        name = f"ascendc/shift_tokens_known_{known}.cpp"
        golden.check(name, emit_shift_tokens(shift, "shift").source)
    for drafts, places in itertools.product((0, 2), (4, 64)):
        advance = plan_advance_requests(
            requests=replace(requests, capacity=places),
            drafts=drafts,
            block=128,
            table_blocks=32,
            steps=8,
            counted=places,
            vocabulary=129_280,
            drafting=True,
            target=TARGET,
        )
        name = f"ascendc/advance_requests_k{drafts}_b{places}.cpp"
        golden.check(name, emit_advance_requests(advance, "advance").source)
