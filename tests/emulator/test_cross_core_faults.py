"""Flags between cores, deadlocks, and races over global memory."""

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument, KernelKind
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import Checks, EmulatorError
from tests.emulator.vector_kernel import build, make_kernel, result, source

N = 64
GROUPS = 3

# Each vector core doubles its part into the workspace, tells the cube core, which tells both back;
# then each vector core copies what its neighbour wrote.
EXCHANGE = f"""
InitSocState();
const uint64_t mine = GetBlockIdx() * {N}, other = (GetBlockIdx() ^ 1) * {N};
if ASCEND_IS_AIV {{
LocalTensor<float> t(TPosition::VECIN, 0, {N});
LocalTensor<float> d(TPosition::VECOUT, 1024, {N});
DataCopy(t, xGm[mine], {N});
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0);
Add(d, t, t, {N});
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(wGm[mine], d, {N});
CrossCoreSetFlag<2, PIPE_MTE3>(3);
CrossCoreWaitFlag(4);
DataCopy(d, wGm[other], {N});
SetFlag<HardEvent::MTE2_MTE3>(0);
WaitFlag<HardEvent::MTE2_MTE3>(0);
DataCopy(yGm[mine], d, {N});
}}
if ASCEND_IS_AIC {{
CrossCoreWaitFlag(3);
CrossCoreSetFlag<2, PIPE_FIX>(4);
}}
PipeBarrier<PIPE_ALL>();
"""
ELEMENTS = 2 * GROUPS * N


def mixed(body: str) -> Kernel:
    arguments = [
        source(DType.F32, "x", ELEMENTS),
        result(DType.F32, "y", ELEMENTS),
        KernelArgument("w", DType.F32, Direction.WORKSPACE, ELEMENTS),
    ]
    return make_kernel("exchange", body, arguments, kind=KernelKind.MIX, blocks=GROUPS)


def launch(kernel: Kernel) -> np.ndarray:
    x = np.arange(ELEMENTS, dtype=np.float32)
    y, w = np.zeros_like(x), np.full_like(x, np.nan)
    build(kernel).launch([x, y, w])
    return y


def test_the_kernel_without_a_fault_exchanges() -> None:
    x = np.arange(ELEMENTS, dtype=np.float32).reshape(GROUPS, 2, N)
    np.testing.assert_array_equal(launch(mixed(EXCHANGE)).reshape(x.shape), 2 * x[:, ::-1])


@pytest.mark.parametrize(
    ("old", "new", "kind", "text"),
    [
        ("CrossCoreWaitFlag(4);\n", "", "poison", "of argument `w`, which this launch has not"),
        ("<2, PIPE_MTE3>(3)", "<2, PIPE_V>(3)", "race", "of argument `w`, which AIV1 of block 0"),
        ("CrossCoreSetFlag<2, PIPE_FIX>(4);\n", "", "deadlock", "AIV0 of block 0 waits for flag 4"),
        ("CrossCoreSetFlag<2, PIPE_MTE3>(3);\n", "", "deadlock", "AIC of block 0 waits for flag 3"),
        ("CrossCoreWaitFlag(3);\n", "", "poison", "of argument `w`, which this launch has not"),
        ("CrossCoreSetFlag<2, PIPE_FIX>(4);",
         "CrossCoreSetFlag<2, PIPE_FIX>(4);\nCrossCoreSetFlag<2, PIPE_FIX>(4);", "flag",
         "flag 4 was set but never waited for"),
        ("<2, PIPE_FIX>(4)", "<2, PIPE_FIX>(11)", "flag", "use flags 0..10; 11..14 belong to"),
        ("CrossCoreSetFlag<2, PIPE_FIX>(4);",
         "for (int i = 0; i < 16; ++i) CrossCoreSetFlag<2, PIPE_FIX>(4);", "flag", "passes 15"),
        ("CrossCoreWaitFlag(4);\n", "CrossCoreWaitFlag(4);\nCrossCoreSetFlag<1, PIPE_V>(5);\n",
         "flag", "flag 5 was set but never waited for"),
    ],
)  # fmt: skip
def test_fault(old: str, new: str, kind: str, text: str) -> None:
    assert old in EXCHANGE
    with pytest.raises(EmulatorError) as caught:
        launch(mixed(EXCHANGE.replace(old, new)))
    assert text in caught.value.text
    assert caught.value.kind == kind


@pytest.mark.parametrize("mode", [0, 1])
def test_vector_cores_can_meet_without_the_cube_core(mode: int) -> None:
    body = EXCHANGE.replace("<2, PIPE_MTE3>(3)", f"<{mode}, PIPE_MTE3>(4)")
    body = body.replace("CrossCoreWaitFlag(3);\nCrossCoreSetFlag<2, PIPE_FIX>(4);\n", "")
    x = np.arange(ELEMENTS, dtype=np.float32).reshape(GROUPS, 2, N)
    np.testing.assert_array_equal(launch(mixed(body)).reshape(x.shape), 2 * x[:, ::-1])


def test_mode_0_reaches_all_groups_and_mode_1_only_the_own() -> None:
    body = EXCHANGE.replace("GetBlockIdx() ^ 1", f"(GetBlockIdx() + 2) % {2 * GROUPS}")
    body = body.replace("CrossCoreWaitFlag(3);\nCrossCoreSetFlag<2, PIPE_FIX>(4);\n", "")
    x = np.arange(ELEMENTS, dtype=np.float32).reshape(2 * GROUPS, N)
    all_groups = launch(mixed(body.replace("<2, PIPE_MTE3>(3)", "<0, PIPE_MTE3>(4)")))
    np.testing.assert_array_equal(all_groups.reshape(x.shape), 2 * np.roll(x, -2, axis=0))
    with pytest.raises(EmulatorError, match="of argument `w`"):
        launch(mixed(body.replace("<2, PIPE_MTE3>(3)", "<1, PIPE_MTE3>(4)")))


def test_flags_need_a_mixed_kernel() -> None:
    body = "CrossCoreSetFlag<0, PIPE_V>(1);\n"
    kernel = make_kernel("lonely", body, [result(DType.F32, "y", 8)])
    with pytest.raises(EmulatorError, match="only MIX kernels start the scheduler"):
        build(kernel).launch([np.zeros(8, np.float32)])


# Both blocks add to the workspace; the second waits for the first and reads the sum.
ADD_UP = """
InitSocState();
LocalTensor<float> t(TPosition::VECIN, 0, 64);
LocalTensor<float> u(TPosition::VECIN, 1024, 64);
DataCopy(t, xGm, 64);
PipeBarrier<PIPE_ALL>();
const uint64_t block = GetBlockIdx();
EARLY
SetAtomicAdd<float>();
ADD
SetAtomicNone();
if (block != EARLIEST) CrossCoreSetFlag<0, PIPE_MTE3>(3);
CrossCoreWaitFlag(3);
PipeBarrier<PIPE_ALL>();
if (block == READER) {
READ
PipeBarrier<PIPE_ALL>();
DataCopy(yGm, u, 64);
}
PipeBarrier<PIPE_ALL>();
"""
WAYS_TO_ADD = {
    "whole": "DataCopy(wGm, t, 64);",
    "rows": "for (int i = 0; i < 64; i += 8) DataCopy(wGm[i], t[i], 8);",
    "bytes": "DataCopyPad(wGm[1], t, DataCopyExtParams(1, 248, 0, 0, 0));",
    "over_bytes": "DataCopy(wGm, t, 64);\nPipeBarrier<PIPE_ALL>();\n"
    "DataCopyPad(wGm[1], t, DataCopyExtParams(1, 248, 0, 0, 0));",
}


def launch_sum(way: str, early: int, reader: int, read: str = "DataCopy(u, wGm, 64);") -> None:
    body = ADD_UP.replace("READER", str(reader)).replace("READ", read)
    body = body.replace("ADD", WAYS_TO_ADD[way]).replace("EARLIEST", str(early))
    flag = f"if (block == {early}) CrossCoreSetFlag<0, PIPE_MTE3>(3);"
    arguments = [
        source(DType.F32, "x", 64),
        KernelArgument("w", DType.F32, Direction.IN_OUT, 64),
        result(DType.F32, "y", 64),
    ]
    kind = KernelKind.SYNCED_VECTOR
    body = body.replace("EARLY", flag)
    kernel = make_kernel("add_up", body, arguments, kind=kind, blocks=3)
    x, w, y = np.ones(64, np.float32), np.zeros(64, np.float32), np.zeros(64, np.float32)
    build(kernel).launch([x, w, y])


@pytest.mark.parametrize("way", WAYS_TO_ADD)
def test_every_atomic_writer_must_be_waited_for(way: str) -> None:
    """Who tells the others before it adds races with the reader, whoever else added last."""
    launch_sum(way, early=9, reader=2)
    for early, reader in ((0, 2), (1, 2), (0, 1), (2, 0)):
        with pytest.raises(EmulatorError, match=r"of argument `w`, which .* wrote") as caught:
            launch_sum(way, early, reader)
        assert caught.value.kind == "race"


def test_a_plain_write_waits_for_every_atomic_writer() -> None:
    launch_sum("rows", early=9, reader=2, read="DataCopy(wGm, t, 64);\nDataCopy(u, xGm, 64);")
    with pytest.raises(EmulatorError, match=r"writes byte 0 of argument `w`, which .* wrote"):
        launch_sum("rows", early=0, reader=2, read="DataCopy(wGm, t, 64);\nDataCopy(u, xGm, 64);")


STORE = """
InitSocState();
LocalTensor<float> t(TPosition::VECOUT, 0, 64);
Duplicate(t, float(GetBlockIdx() + 1), 64);
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopyExtParams p(1, sizesGm.GetValue(1) * sizeof(float), 0, 0, 0);
DataCopyPad(yGm[GetBlockIdx() * sizesGm.GetValue(0)], t, p);
PipeBarrier<PIPE_ALL>();
"""


@pytest.mark.parametrize(("pitch", "length"), [(1, 1), (3, 3), (7, 5), (8, 8), (13, 13)])
def test_neighbouring_rows_may_share_a_block_but_not_a_byte(pitch: int, length: int) -> None:
    arguments = [source(DType.I32, "sizes", 8), result(DType.F32, "y", 64)]
    kernel = make_kernel("store_rows", STORE, arguments, blocks=4)
    y = np.zeros(64, np.float32)
    sizes = np.array([pitch, length, 0, 0, 0, 0, 0, 0], np.int32)
    build(kernel).launch([sizes, y])
    for block in range(4):
        assert np.all(y[block * pitch :][:length] == block + 1)
    sizes[1] = pitch + 1
    with pytest.raises(
        EmulatorError, match=r"which AIV of block \d, MTE3 DataCopyPad in line \d+ wrote"
    ):
        build(kernel).launch([sizes, y])


def test_a_scalar_write_is_seen_by_copies_only_after_the_cache_was_cleaned() -> None:
    body = """
InitSocState();
LocalTensor<float> t(TPosition::VECIN, 0, 8);
for (int i = 0; i < 8; ++i) yGm.SetValue(i, float(i));
CLEAN
DataCopy(t, yGm, 8);
SetFlag<HardEvent::MTE2_MTE3>(0);
WaitFlag<HardEvent::MTE2_MTE3>(0);
DataCopy(yGm[8], t, 8);
PipeBarrier<PIPE_ALL>();
"""
    line = "CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT"
    clean = f"DataCacheCleanAndInvalid<float, {line}>(yGm);"
    y = np.zeros(16, np.float32)
    arguments = [result(DType.F32, "y", 16)]
    build(make_kernel("cleaned", body.replace("CLEAN", clean), arguments)).launch([y])
    np.testing.assert_array_equal(y[8:], np.arange(8))
    with pytest.raises(EmulatorError, match="scalar write is still in the data cache"):
        build(make_kernel("dirty", body.replace("CLEAN", ""), arguments)).launch([y])


@pytest.mark.parametrize("pitch", [1, 8, 14, 15, 16])
@pytest.mark.parametrize("cleaned", [False, True])
def test_two_cores_may_not_write_scalars_into_one_cache_line(pitch: int, cleaned: bool) -> None:  # noqa: FBT001
    line = "CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT"
    clean = f"DataCacheCleanAndInvalid<float, {line}>(yGm[1 + block * {pitch}]);"
    body = "yGm.SetValue(1 + GetBlockIdx() * PITCH, 1.0f);\nCLEAN\n"
    body = body.replace("PITCH", str(pitch)).replace("CLEAN", clean if cleaned else "")
    body = body.replace("block", "GetBlockIdx()")
    kernel = make_kernel("write_scalar", body, [result(DType.F32, "y", 32)], blocks=2)
    y = np.zeros(32, np.float32)
    if pitch > 14:
        build(kernel).launch([y])
        assert y[1] == y[1 + pitch] == 1
        return
    with pytest.raises(EmulatorError, match="in the cache line of 64 bytes where AIV of block 0"):
        build(kernel).launch([y])


def test_a_cache_line_can_be_handed_over() -> None:
    """Block 0 writes and tells block 1, in rounds; without the cleaning its line is still dirty."""
    line = "CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT"
    clean = f"DataCacheCleanAndInvalid<float, {line}>(yGm);\n"
    body = """
if (GetBlockIdx() == 0) yGm.SetValue(0, 1.0f);
CLEANPipeBarrier<PIPE_ALL>();
CrossCoreSetFlag<0, PIPE_MTE3>(3);
CrossCoreWaitFlag(3);
if (GetBlockIdx() == 1) yGm.SetValue(1, 2.0f);
CLEAN"""
    kind = KernelKind.SYNCED_VECTOR
    arguments = [result(DType.F32, "y", 16)]
    y = np.zeros(16, np.float32)
    right = make_kernel("hand_over", body.replace("CLEAN", clean), arguments, kind=kind, blocks=2)
    build(right).launch([y])
    np.testing.assert_array_equal(y[:2], [1, 2])
    wrong = make_kernel("keep_line", body.replace("CLEAN", ""), arguments, kind=kind, blocks=2)
    with pytest.raises(EmulatorError, match="and did not clean its cache"):
        build(wrong).launch([y])


@pytest.mark.parametrize("shift", range(0, 64, 16))
def test_cache_lines_are_those_of_the_device_wherever_the_host_puts_the_array(shift: int) -> None:
    body = """
InitSocState();
LocalTensor<float> t(TPosition::VECIN, 0, 8);
for (int i = 0; i < 24; ++i) yGm.SetValue(i, float(i));
DataCacheCleanAndInvalid<float, CacheLine::SINGLE_CACHE_LINE, DcciDst::CACHELINE_OUT>(yGm[4]);
DataCopy(t, yGm[PLACE], 8);
PipeBarrier<PIPE_ALL>();
"""
    arguments = [result(DType.F32, "y", 24)]
    room = np.zeros(64, np.float32)
    start = -room.__array_interface__["data"][0] % 64 + shift
    y = room.view(np.uint8)[start : start + 96].view(np.float32)
    build(make_kernel("first_line", body.replace("PLACE", "8"), arguments)).launch([y])
    with pytest.raises(EmulatorError, match="scalar write is still in the data cache"):
        build(make_kernel("second_line", body.replace("PLACE", "16"), arguments)).launch([y])


POLL = """
InitSocState();
LocalTensor<int32_t> t(TPosition::VECOUT, 0, 8);
if (GetBlockIdx() == 1) {
Duplicate(t, int32_t(7), 8);
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(flagGm, t, 8);
PipeBarrier<PIPE_ALL>();
} else {
while (flagGm.GetValue(0) != 7) {
DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(flagGm);
}
}
"""


def test_polling_global_memory_yields_to_the_writer_but_is_a_race() -> None:
    """Nothing orders the poll with the write, so races must be off to see the value arrive."""
    arguments = [KernelArgument("flag", DType.I32, Direction.IN_OUT, 8)]
    kernel = make_kernel("poll", POLL, arguments, blocks=2)
    build(kernel, Checks(races=False)).launch([np.zeros(8, np.int32)])
    with pytest.raises(EmulatorError) as caught:
        build(kernel).launch([np.zeros(8, np.int32)])
    assert caught.value.kind == "race"


def test_polling_without_a_writer_is_a_deadlock() -> None:
    arguments = [KernelArgument("flag", DType.I32, Direction.IN_OUT, 8)]
    kernel = make_kernel("poll_for_ever", POLL.replace("== 1", "== 5"), arguments, blocks=2)
    with pytest.raises(EmulatorError, match="AIV of block 0 polls global memory in line"):
        build(kernel).launch([np.zeros(8, np.int32)])
