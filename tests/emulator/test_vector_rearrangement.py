"""Comparisons, selections, gathers, reductions and sorts against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import EmulatorError
from tests.emulator.vector_kernel import make_kernel, result, run, source

N = 2048
COMPARISONS = ("LT", "GT", "EQ", "LE", "GE", "NE")
NUMPY_COMPARISONS = (np.less, np.greater, np.equal, np.less_equal, np.greater_equal, np.not_equal)

CASES = "\n".join(
    f"case {i}: Compare(bits, a, b, CMPMODE::{mode}, count); break;\n"
    f"case {i + 10}: Compares(bits, a, 2.0f, CMPMODE::{mode}, count); break;"
    for i, mode in enumerate(COMPARISONS)
)

BODY = f"""
InitSocState();
LocalTensor<float> a(TPosition::VECIN, 0, {N});
LocalTensor<float> b(TPosition::VECIN, 8192, {N});
LocalTensor<uint32_t> u(TPosition::VECIN, 16384, {N});
LocalTensor<int32_t> ui(TPosition::VECIN, 16384, {N});
LocalTensor<float> d(TPosition::VECOUT, 24576, 2 * {N});
LocalTensor<float> work(TPosition::VECCALC, 40960, 2 * {N});
LocalTensor<uint8_t> bits(TPosition::VECCALC, 57344, {N});
DataCopy(a, aGm, {N});
DataCopy(b, bGm, {N});
DataCopy(ui, uGm, {N});
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0);
Duplicate(d, -1.0f, 2 * {N});
const int32_t op = paramsGm.GetValue(0), count = paramsGm.GetValue(1);
uint64_t kept = 0;
switch (op) {{
{CASES}
case 20: Gather(d, a, u, paramsGm.GetValue(2), count); break;
case 21: GatherMask(d, a, u, true, count, {{1, 1, 8, 8}}, kept); break;
case 22: {{
GatherMaskParams masked(1, count, 8, 0);
GatherMask(d, a, (uint8_t)paramsGm.GetValue(2), false, 0, masked, kept);
}} break;
case 30: ReduceSum(d, a, work, count); break;
case 31: ReduceMax(d, a, work, count, true); break;
case 32: ReduceMin(d, a, work, count, true); break;
case 33: ReduceRepeat<ReduceType::SUM, float>(d, a, 64, count, 1, 1, 8); break;
case 34: ReduceDataBlock<ReduceType::MAX, float>(d, a, 64, count, 1, 1, 8); break;
case 40: Sort32(d, a, u, count); break;
case 41: {{
Sort32(work, a, u, 8);
MrgSort4Info info;
for (int i = 0; i < 4; ++i) info.elementLengths[i] = paramsGm.GetValue(2 + i);
info.validBit = count;
info.repeatTimes = 1;
MrgSortSrcList<float> lists(work[0], work[64], work[128], work[192]);
MrgSort(d, lists, info);
}} break;
case 43: {{
Sort32(work, a, u, 8);
MrgSort4Info info;
for (int i = 0; i < 4; ++i) info.elementLengths[i] = 32;
info.validBit = 15;
info.ifExhaustedSuspension = true;
MrgSort(d, MrgSortSrcList<float>(work[0], work[64], work[128], work[192]), info);
uint16_t taken[4];
GetMrgSortResult(taken[0], taken[1], taken[2], taken[3]);
for (int i = 0; i < 4; ++i) d.SetValue({N} + i, float(taken[i]));
}} break;
case 44: Transpose(d.ReinterpretCast<half>(), a.ReinterpretCast<half>()); break;
case 42: {{
Sort32(work, a, u, 8);
const uint16_t lengths[4] = {{32, 32, 32, 32}};
MrgSortSrcList<float> lists(work[0], work[64], work[128], work[192]);
MrgSort(d, lists, MrgSort4Info(lengths, false, 15, 2));
}} break;
}}
if (op < 20) {{
Select(d, bits, a, b, SELMODE::VSEL_TENSOR_TENSOR_MODE, count);
Select(d[{N}], bits, a, 9.0f, SELMODE::VSEL_TENSOR_SCALAR_MODE, count);
}}
d.SetValue(2 * {N} - 1, float(kept));
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(outGm, d, 2 * {N});
PipeBarrier<PIPE_ALL>();
"""


def kernel() -> Kernel:
    arguments = [
        source(DType.F32, "a", N),
        source(DType.F32, "b", N),
        source(DType.I32, "u", N),
        source(DType.I32, "params", 8),
        result(DType.F32, "out", 2 * N),
    ]
    return make_kernel("rearrange", BODY, arguments)


def launch(
    *params: int, a: np.ndarray, b: np.ndarray | None = None, u: np.ndarray | None = None
) -> np.ndarray:
    control = np.zeros(8, np.int32)
    control[: len(params)] = params
    b = np.zeros(N, np.float32) if b is None else b
    u = np.zeros(N, np.uint32) if u is None else u
    (out,) = run(kernel(), a, b, u.view(np.int32), control)
    return out


def small_integers(seed: int, high: int = 5) -> np.ndarray:
    return np.random.default_rng(seed).integers(0, high, N).astype(np.float32)


@pytest.mark.parametrize("mode", range(6))
@given(repeats=st.integers(0, N // 64 - 1), seed=st.integers(0, 999))
def test_compare_and_select(mode: int, repeats: int, seed: int) -> None:
    a, b, count = small_integers(seed), small_integers(seed + 1000), repeats * 64
    holds = NUMPY_COMPARISONS[mode](a, b)[:count]
    out = launch(mode, count, a=a, b=b)
    np.testing.assert_array_equal(out[:count], np.where(holds, a[:count], b[:count]))
    np.testing.assert_array_equal(out[N:][:count], np.where(holds, a[:count], 9))
    assert np.all(out[count:N] == -1)
    holds = NUMPY_COMPARISONS[mode](a, 2)[:count]
    out = launch(mode + 10, count, a=a, b=b)
    np.testing.assert_array_equal(out[:count], np.where(holds, a[:count], b[:count]))


def test_a_count_that_is_not_compared_completely_is_a_fault() -> None:
    with pytest.raises(EmulatorError, match="65 elements are not a multiple of 256 bytes"):
        launch(0, 65, a=small_integers(0))


@given(count=st.integers(0, N), base=st.integers(0, 100), seed=st.integers(0, 999))
def test_gather_takes_byte_offsets(count: int, base: int, seed: int) -> None:
    index = np.random.default_rng(seed).integers(0, N - base, N).astype(np.uint32)
    a = np.arange(N, dtype=np.float32)
    out = launch(20, count, base * 4, a=a, u=index * 4)
    np.testing.assert_array_equal(out[:count], (index + base)[:count])
    assert np.all(out[count : 2 * N - 1] == -1)


@pytest.mark.parametrize(("offset", "kind"), [(3, "alignment"), (4 * N, "bounds")])
def test_gather_offsets_are_checked(offset: int, kind: str) -> None:
    with pytest.raises(EmulatorError) as caught:
        launch(20, 8, a=small_integers(0), u=np.full(N, offset, np.uint32))
    assert caught.value.kind == kind


@given(count=st.integers(1, N), seed=st.integers(0, 999))
def test_gather_mask_by_bits(count: int, seed: int) -> None:
    random = np.random.default_rng(seed)
    bits = random.integers(0, 2, N).astype(bool)
    words = np.zeros(N, np.uint32)
    words[: N // 32] = np.packbits(bits, bitorder="little").view(np.uint32)
    a = random.standard_normal(N).astype(np.float32)
    out = launch(21, count, a=a, u=words)
    expected = a[:count][bits[:count]]
    np.testing.assert_array_equal(out[: len(expected)], expected)
    assert out[-1] == len(expected)


@pytest.mark.parametrize("pattern", range(1, 8))
def test_gather_mask_by_pattern(pattern: int) -> None:
    a = np.arange(N, dtype=np.float32)
    taken = {1: a[::2], 2: a[1::2], 7: a}.get(pattern, a[pattern - 3 :: 4])
    repeats = 5
    expected = taken[: len(taken) * repeats * 64 // N]
    out = launch(22, repeats, pattern, a=a)
    np.testing.assert_array_equal(out[: len(expected)], expected)
    assert out[-1] == len(expected)


def tree(values: np.ndarray) -> np.float32:
    while len(values) > 1:
        pairs = values[: len(values) // 2 * 2].reshape(-1, 2)
        values = np.append(pairs[:, 0] + pairs[:, 1], values[len(pairs) * 2 :])
    return values[0]


@given(count=st.integers(1, N), seed=st.integers(0, 999))
def test_sum_is_a_tree_per_repeat_and_repeats_in_order(count: int, seed: int) -> None:
    a = np.random.default_rng(seed).standard_normal(N).astype(np.float32)
    parts = [tree(a[start : min(start + 64, count)]) for start in range(0, count, 64)]
    expected = parts[0]
    for part in parts[1:]:
        expected = expected + part
    assert launch(30, count, a=a)[0] == expected


@given(count=st.integers(1, N), seed=st.integers(0, 999))
def test_extremes_give_the_first_index(count: int, seed: int) -> None:
    a = small_integers(seed, high=50)
    for case, best in ((31, np.argmax), (32, np.argmin)):
        out = launch(case, count, a=a)
        assert out[0] == a[best(a[:count])]
        assert out[1:2].view(np.uint32)[0] == best(a[:count])


@given(repeats=st.integers(1, N // 64), seed=st.integers(0, 999))
def test_reductions_per_repeat_and_per_block(repeats: int, seed: int) -> None:
    a = small_integers(seed)
    sums = a.reshape(-1, 64).sum(1)[:repeats]
    np.testing.assert_array_equal(launch(33, repeats, a=a)[:repeats], sums)
    largest = a.reshape(-1, 8).max(1)[: repeats * 8]
    np.testing.assert_array_equal(launch(34, repeats, a=a)[: repeats * 8], largest)


def records(out: np.ndarray, count: int) -> tuple[np.ndarray, np.ndarray]:
    pairs = out[: 2 * count].reshape(count, 2)
    return pairs[:, 0], np.ascontiguousarray(pairs[:, 1]).view(np.uint32)


@given(repeats=st.integers(1, 8), seed=st.integers(0, 999))
def test_sort_is_descending_and_stable_and_keeps_index_bits(repeats: int, seed: int) -> None:
    a = small_integers(seed)
    u = np.random.default_rng(seed).integers(0, 2**32, N, dtype=np.uint32)
    scores, indices = records(launch(40, repeats, a=a, u=u), 32 * repeats)
    for start in range(0, 32 * repeats, 32):
        order = np.argsort(-a[start : start + 32], kind="stable") + start
        np.testing.assert_array_equal(scores[start : start + 32], a[order])
        np.testing.assert_array_equal(indices[start : start + 32], u[order])


@pytest.mark.parametrize(("valid", "lists"), [(3, 2), (7, 3), (15, 4)])
@given(lengths=st.lists(st.integers(0, 32), min_size=4, max_size=4), seed=st.integers(0, 999))
def test_merge_takes_equal_scores_from_the_earlier_list(
    valid: int, lists: int, lengths: list[int], seed: int
) -> None:
    a, u = small_integers(seed), np.arange(N, dtype=np.uint32)
    taken = [
        (np.argsort(-a[32 * i : 32 * i + 32], kind="stable") + 32 * i)[: lengths[i]]
        for i in range(lists)
    ]
    candidates = np.concatenate(taken)
    order = candidates[np.argsort(-a[candidates], kind="stable")]
    scores, indices = records(launch(41, valid, *lengths, a=a, u=u), len(order))
    np.testing.assert_array_equal(indices, order)
    np.testing.assert_array_equal(scores, a[order])


def test_two_merges_of_four_contiguous_lists() -> None:
    a, u = small_integers(1, high=1000), np.arange(N, dtype=np.uint32)
    scores, _ = records(launch(42, 0, a=a, u=u), 256)
    np.testing.assert_array_equal(scores[:128], -np.sort(-a[:128]))
    np.testing.assert_array_equal(scores[128:], -np.sort(-a[128:256]))


def test_a_merge_can_stop_when_a_list_is_exhausted_and_tell_what_it_took() -> None:
    a, u = small_integers(3, high=1000), np.arange(N, dtype=np.uint32)
    out = launch(43, 0, a=a, u=u)
    taken = out[N : N + 4].astype(int)
    assert 32 in taken
    lists = [-np.sort(-a[32 * i : 32 * i + 32])[:count] for i, count in enumerate(taken)]
    scores, _ = records(out, taken.sum())
    np.testing.assert_array_equal(scores, -np.sort(-np.concatenate(lists)))


def test_transpose_of_a_square_of_half() -> None:
    square = np.arange(256, dtype=np.float16).reshape(16, 16)
    a = np.zeros(N, np.float32)
    a[:128] = square.ravel().view(np.float32)
    out = launch(44, 0, a=a)[:128].view(np.float16)
    np.testing.assert_array_equal(out.reshape(16, 16), square.T)
