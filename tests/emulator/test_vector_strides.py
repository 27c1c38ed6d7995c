"""Mask and repeat forms against a model that walks lane by lane as the page on strides says."""

from dataclasses import dataclass

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.ir.tensor_type import DType
from tests.emulator.vector_kernel import make_kernel, result, run, source

CAPACITY = 4096
LANES = 64
PER_BLOCK = 8

BODY = f"""
InitSocState();
LocalTensor<float> a(TPosition::VECIN, 0, {CAPACITY});
LocalTensor<float> b(TPosition::VECIN, 16384, {CAPACITY});
LocalTensor<float> d(TPosition::VECOUT, 32768, {CAPACITY});
LocalTensor<bfloat16_t> n(TPosition::VECOUT, 49152, {CAPACITY});
DataCopy(a, aGm, {CAPACITY});
DataCopy(b, bGm, {CAPACITY});
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0);
Duplicate(d, -1.0f, {CAPACITY});
int32_t p[16];
for (int i = 0; i < 16; ++i) p[i] = paramsGm.GetValue(i);
BinaryRepeatParams binary(p[3], p[4], p[5], p[6], p[7], p[8]);
UnaryRepeatParams unary(p[3], p[4], p[6], p[7]);
uint64_t bits[2] = {{ (uint64_t)(uint32_t)p[9] | (uint64_t)(uint32_t)p[10] << 32, 0 }};
switch (p[0]) {{
case 0: Sub(d, a, b, (uint64_t)p[1], p[2], binary); break;
case 1: Sub(d, a, b, bits, p[2], binary); break;
case 2: Muls(d, a, 2.0f, (uint64_t)p[1], p[2], unary); break;
case 3: Copy(d, a, (uint64_t)p[1], p[2], CopyRepeatParams(p[3], p[4], p[6], p[7])); break;
case 4: Duplicate(d, 9.0f, (uint64_t)p[1], p[2], p[3], p[6]); break;
case 5: Brcb(d, a, p[2], BrcbRepeatParams(p[3], p[6])); break;
case 6:
SetMaskCount();
Sub(d, a, b, (uint64_t)p[11], p[2], binary);
SetMaskNorm();
break;
}}
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(outGm, d, {CAPACITY});
PipeBarrier<PIPE_ALL>();
"""


def kernel() -> Kernel:
    arguments = [
        source(DType.F32, "a", CAPACITY),
        source(DType.F32, "b", CAPACITY),
        source(DType.I32, "params", 16),
        result(DType.F32, "out", CAPACITY),
    ]
    return make_kernel("strides", BODY, arguments)


@dataclass(frozen=True)
class Walk:
    """How one instruction walks; strides in blocks for target, first and second source."""

    lanes: int
    repeats: int
    blocks: tuple[int, int, int]
    steps: tuple[int, int, int]
    bits: int = 0

    def offset(self, operand: int, repeat: int, lane: int) -> int:
        block = repeat * self.steps[operand] + lane // PER_BLOCK * self.blocks[operand]
        return block * PER_BLOCK + lane % PER_BLOCK


@st.composite
def walks(draw: st.DrawFn) -> Walk:
    blocks = (draw(st.integers(1, 3)), draw(st.integers(0, 3)), draw(st.integers(0, 3)))
    target = draw(st.integers(8 * blocks[0], 40))  # repeats do not overlap in the target
    steps = (target, draw(st.integers(0, 40)), draw(st.integers(0, 40)))
    bits = draw(st.integers(1, 2**64 - 1))
    return Walk(draw(st.integers(1, LANES)), draw(st.integers(0, 12)), blocks, steps, bits)


def launch(case: int, walk: Walk, total: int = 0) -> np.ndarray:
    params = np.zeros(16, np.int64)
    params[:3] = case, walk.lanes, walk.repeats
    params[3:6], params[6:9] = walk.blocks, walk.steps
    params[9:12] = walk.bits & 0xFFFFFFFF, walk.bits >> 32, total
    a, b = VALUES
    (out,) = run(kernel(), a, b, params.astype(np.uint32).view(np.int32))
    return out


VALUES = np.arange(2 * CAPACITY, dtype=np.float32).reshape(2, CAPACITY) ** 1.5


def subtract(walk: Walk, lanes: list[list[int]]) -> np.ndarray:
    """The result of ``a - b`` on the lanes of each repeat."""
    a, b = VALUES
    out = np.full(CAPACITY, -1, np.float32)
    for repeat, selected in enumerate(lanes):
        for lane in selected:
            value = a[walk.offset(1, repeat, lane)] - b[walk.offset(2, repeat, lane)]
            out[walk.offset(0, repeat, lane)] = value
    return out


@given(walk=walks())
def test_leading_lanes(walk: Walk) -> None:
    expected = subtract(walk, [list(range(walk.lanes))] * walk.repeats)
    np.testing.assert_array_equal(launch(0, walk), expected)


@given(walk=walks())
def test_lanes_by_bits(walk: Walk) -> None:
    selected = [lane for lane in range(LANES) if walk.bits >> lane & 1]
    np.testing.assert_array_equal(launch(1, walk), subtract(walk, [selected] * walk.repeats))


@given(walk=walks(), total=st.integers(1, 12 * LANES))
def test_counter_mode_ignores_the_repeats_and_counts_elements(walk: Walk, total: int) -> None:
    full, rest = divmod(total, LANES)
    lanes = [list(range(LANES))] * full + ([list(range(rest))] if rest else [])
    np.testing.assert_array_equal(launch(6, walk, total), subtract(walk, lanes))


@given(walk=walks())
def test_unary_copy_and_fill(walk: Walk) -> None:
    a = VALUES[0]
    expected = {case: np.full(CAPACITY, -1, np.float32) for case in (2, 3, 4)}
    for repeat in range(walk.repeats):
        for lane in range(walk.lanes):
            to, value = walk.offset(0, repeat, lane), a[walk.offset(1, repeat, lane)]
            expected[2][to], expected[3][to], expected[4][to] = 2 * value, value, 9
    for case, out in expected.items():
        np.testing.assert_array_equal(launch(case, walk), out)


@given(walk=walks())
def test_broadcast_to_blocks(walk: Walk) -> None:
    expected = np.full(CAPACITY, -1, np.float32)
    for i in range(8 * walk.repeats):
        block = i // 8 * walk.steps[0] + i % 8 * walk.blocks[0]
        expected[block * PER_BLOCK :][:PER_BLOCK] = VALUES[0][i]
    np.testing.assert_array_equal(launch(5, walk), expected)
