"""The kernels of packed rows do what their operations say, for any places."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.align_drafts import emit_align_drafts, plan_align_drafts
from ascendfx.codegen.ascendc.kernels.pack_rows import emit_pack_rows, plan_pack_rows
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.kernels.verify_drafts import emit_verify_drafts, plan_verify_drafts
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.step_state import Size
from tests.golden_file import Golden
from tests.ir.packed_cases import pack_case, packed_align_case, packed_verify_case
from tests.kernels.place_kernels import check, run
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, build, sizes

_PLACES = [(9, 9, 1), (24, 20, 8), (256, 256, 3), (48, 33, 4), (300, 300, 2)]
"""Capacity, requests and drafts."""
_ROWS = int(Size.PACKED_ROWS)


@pytest.mark.parametrize(("capacity", "requests", "drafts"), _PLACES)
@settings(max_examples=12)
@given(data=st.data())
def test_rows_are_packed(capacity: int, requests: int, drafts: int, data: st.DataObject) -> None:
    op, operands = data.draw(pack_case(requests=requests, drafts=drafts))
    target = FEW_CORES if requests == 300 else TARGET
    plan = plan_pack_rows(
        requests=DeviceSize(1, capacity), drafts=drafts, pairs=op.pairs, target=target
    )
    kernel = emit_pack_rows(plan, "pack_rows")
    table = operands[4].astype(np.int32)
    table[Size.REQUESTS] = requests
    *given, _ = operands
    filled = [
        np.append(each, np.zeros(argument.elements - each.size, np.int64)).astype(np.int32)
        for argument, each in zip(kernel.arguments, given, strict=False)
    ]
    made: list[Array] = [np.full(each.elements, -77, np.int32) for each in kernel.arguments[4:-1]]
    build(kernel).launch([*filled, *made, table])
    *wanted, starts, counted = op.reference(
        *given, np.where(np.arange(8) == 1, requests, operands[4])
    )
    count = int(counted[_ROWS])
    check(made, (*(each[:count] for each in wanted), starts))
    np.testing.assert_array_equal(table, counted)


def test_without_places_nothing_is_written() -> None:
    kernel = emit_pack_rows(
        plan_pack_rows(requests=DeviceSize(1, 8), drafts=2, pairs=0, target=TARGET), "pack_rows"
    )
    tensors = [np.full(each.elements, -77, np.int32) for each in kernel.arguments[:-1]]
    build(kernel).launch([*tensors, sizes(requests=0)])
    assert all((each == -77).all() for each in tensors)


@pytest.mark.parametrize(("capacity", "requests", "drafts"), _PLACES)
@settings(max_examples=12)
@given(data=st.data())
def test_packed_drafts_are_verified(
    capacity: int, requests: int, drafts: int, data: st.DataObject
) -> None:
    op, operands, _ = data.draw(packed_verify_case(requests=requests, drafts=drafts))
    plan = plan_verify_drafts(
        requests=DeviceSize(1, capacity),
        drafts=drafts,
        rows=DeviceSize(0, capacity * (drafts + 1)),
        target=FEW_CORES if requests == 300 else TARGET,
    )
    counts = {"rows": len(operands[0]), "requests": requests}
    check(run(emit_verify_drafts(plan, "verify"), operands, counts), op.reference(*operands))


@pytest.mark.parametrize(("capacity", "requests", "drafts"), _PLACES)
@settings(max_examples=12)
@given(data=st.data())
def test_hidden_states_of_packed_rows_are_kept(
    capacity: int, requests: int, drafts: int, data: st.DataObject
) -> None:
    op, operands, _ = data.draw(packed_align_case(requests=requests, drafts=drafts, block=4))
    plan = plan_align_drafts(
        requests=DeviceSize(1, capacity),
        drafts=drafts,
        block=4,
        table_blocks=operands[1].shape[1],
        packed=DeviceSize(0, capacity * (drafts + 1)),
        target=FEW_CORES if requests == 300 else TARGET,
    )
    rows = int(rows_of_places(operands[2], drafts).sum())
    found = run(emit_align_drafts(plan, "align"), operands, {"rows": rows, "requests": requests})
    ids, positions, slots, last, kept, hidden, recent = op.reference(*operands)
    check(found, (recent, ids, positions, slots, last, kept[:rows], hidden))


@settings(max_examples=40)
@given(requests=st.integers(1, 4_096), drafts=st.integers(0, 8), pairs=st.integers(0, 8))
def test_every_plan_fits_local_memory(requests: int, drafts: int, pairs: int) -> None:
    plan = plan_pack_rows(
        requests=DeviceSize(1, requests), drafts=drafts, pairs=pairs, target=TARGET
    )
    assert local_bytes(plan.buffers) <= TARGET.unified_buffer
    assert plan.blocks <= TARGET.vector_cores


def test_goldens(golden: Golden) -> None:
    requests, rows = DeviceSize(1, 64), DeviceSize(_ROWS, 192)
    pack = plan_pack_rows(requests=requests, drafts=2, pairs=8, target=TARGET)
    golden.check("ascendc/pack_rows.cpp", emit_pack_rows(pack, "pack").source)
    verify = plan_verify_drafts(requests=requests, drafts=2, rows=rows, target=TARGET)
    golden.check("ascendc/verify_drafts_packed.cpp", emit_verify_drafts(verify, "verify").source)
    align = plan_align_drafts(
        requests=requests, drafts=2, block=128, table_blocks=9, packed=rows, target=TARGET
    )
    golden.check("ascendc/align_drafts_packed.cpp", emit_align_drafts(align, "align").source)
