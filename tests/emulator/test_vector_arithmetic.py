"""Element-wise vector calls against NumPy, over every count including tails and zero."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.ir.tensor_type import DType
from tests.emulator.vector_kernel import CPP_TYPES, make_kernel, result, run, source

CAPACITY = 512
UNTOUCHED = 77

BINARY = {
    "Add": np.add,
    "Sub": np.subtract,
    "Mul": np.multiply,
    "Max": np.maximum,
    "Min": np.minimum,
}
SCALAR = {"Adds": np.add, "Muls": np.multiply, "Maxs": np.maximum, "Mins": np.minimum}
UNARY = {
    "Exp": np.exp,
    "Ln": np.log,
    "Sqrt": np.sqrt,
    "Rsqrt": lambda x: 1 / np.sqrt(x),
    "Reciprocal": lambda x: 1 / x,
    "Abs": np.abs,
    "Relu": lambda x: np.maximum(x, 0),
}
NUMBERS = (DType.F32, DType.F16, DType.I32)
FLOATS = (DType.F32, DType.F16)


def arithmetic_kernel(dtype: DType) -> Kernel:
    """One kernel with every call of the type; ``params`` holds the call and the count."""
    cpp = CPP_TYPES[dtype]
    calls = [f"{name}(d, a, b, count)" for name in (*BINARY, "Div")]
    calls += [f"{name}(d, a, {cpp}(3), count)" for name in SCALAR]
    calls += [f"{name}(d, a, count)" for name in UNARY]
    if not dtype.is_float:
        skipped = ("Div(", *(f"{name}(" for name in UNARY if name != "Relu"))
        calls = ["" if call.startswith(skipped) else call for call in calls]
    cases = "\n".join(f"case {i}: {call}; break;" for i, call in enumerate(calls))
    body = f"""
InitSocState();
const int32_t count = paramsGm.GetValue(1);
constexpr uint32_t BYTES = {CAPACITY} * sizeof({cpp});
LocalTensor<{cpp}> a(TPosition::VECIN, 0, {CAPACITY});
LocalTensor<{cpp}> b(TPosition::VECIN, BYTES, {CAPACITY});
LocalTensor<{cpp}> d(TPosition::VECOUT, 2 * BYTES, {CAPACITY});
DataCopy(a, aGm, {CAPACITY});
DataCopy(b, bGm, {CAPACITY});
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0);
Duplicate(d, {cpp}({UNTOUCHED}), {CAPACITY});
switch (paramsGm.GetValue(0)) {{
{cases}
}}
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(outGm, d, {CAPACITY});
PipeBarrier<PIPE_ALL>();
"""
    arguments = [
        source(dtype, "a", CAPACITY),
        source(dtype, "b", CAPACITY),
        source(DType.I32, "params", 8),
        result(dtype, "out", CAPACITY),
    ]
    return make_kernel(f"arithmetic_{dtype.value}", body, arguments)


CALLS = (*BINARY, "Div", *SCALAR, *UNARY)
Array = NDArray[np.generic]


def call(dtype: DType, name: str, a: Array, b: Array, count: int) -> Array:
    params = np.zeros(8, np.int32)
    params[:2] = CALLS.index(name), count
    (out,) = run(arithmetic_kernel(dtype), a, b, params)
    return out


def operands(dtype: DType, seed: int, *, positive: bool = False) -> tuple[Array, Array]:
    random = np.random.default_rng(seed)
    if not dtype.is_float:
        low, high = -(2**31), 2**31 - 1
        a, b = (random.integers(low, high, CAPACITY, dtype=np.int32) for _ in range(2))
        return a, b
    a, b = (random.standard_normal(CAPACITY) * 4 for _ in range(2))
    if positive:
        a = np.abs(a) + 0.01
    return a.astype(dtype.numpy), b.astype(dtype.numpy)


def check(out: Array, expected: Array, count: int) -> None:
    np.testing.assert_array_equal(out[:count], expected[:count])
    assert np.all(out[count:] == UNTOUCHED), "elements behind the count were written"


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", BINARY)
@given(count=st.integers(0, CAPACITY), seed=st.integers(0, 2**32 - 1))
def test_two_tensors(dtype: DType, name: str, count: int, seed: int) -> None:
    a, b = operands(dtype, seed)
    check(call(dtype, name, a, b, count), BINARY[name](a, b), count)


@pytest.mark.parametrize("dtype", FLOATS)
@given(count=st.integers(0, CAPACITY), seed=st.integers(0, 2**32 - 1))
def test_division(dtype: DType, count: int, seed: int) -> None:
    a, b = operands(dtype, seed)
    with np.errstate(all="ignore"):
        check(call(dtype, "Div", a, b, count), np.divide(a, b), count)


@pytest.mark.parametrize("dtype", NUMBERS)
@pytest.mark.parametrize("name", SCALAR)
@given(count=st.integers(0, CAPACITY), seed=st.integers(0, 2**32 - 1))
def test_tensor_and_scalar(dtype: DType, name: str, count: int, seed: int) -> None:
    a, b = operands(dtype, seed)
    expected = SCALAR[name](a, dtype.numpy.type(3))
    check(call(dtype, name, a, b, count), expected, count)


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("name", UNARY)
@given(count=st.integers(0, CAPACITY), seed=st.integers(0, 2**32 - 1))
def test_one_tensor_is_the_exact_value_rounded_once(
    dtype: DType, name: str, count: int, seed: int
) -> None:
    """All unary calls round the exact result once; float64 is close enough to the exact result
    (error 2^-52) that rounding it differs only for results within 2^-28 of a tie, which these
    inputs do not hit for half and hit by at most one unit for float."""
    a, b = operands(dtype, seed, positive=name in {"Ln", "Sqrt", "Rsqrt"})
    with np.errstate(over="ignore"):
        expected = UNARY[name](a.astype(np.float64)).astype(dtype.numpy)[:count]
    out = call(dtype, name, a, b, count)
    differs = out[:count] != expected
    assert np.count_nonzero(differs) <= max(1, count // 256)
    neighbours = np.nextafter(out[:count][differs], expected[differs])
    np.testing.assert_array_equal(neighbours, expected[differs])
    assert np.all(out[count:] == UNTOUCHED)


@pytest.mark.parametrize("name", ["Exp", "Ln", "Rsqrt", "Reciprocal", "Sqrt"])
def test_special_values(name: str) -> None:
    special = np.array(
        [0.0, -0.0, np.inf, -np.inf, np.nan, -1.0, 1e-45, 3e38, -200, 200], np.float32
    )
    a = np.resize(special, CAPACITY)
    with np.errstate(all="ignore"):
        expected = UNARY[name](a.astype(np.float64)).astype(np.float32)
    np.testing.assert_array_equal(call(DType.F32, name, a, a, CAPACITY), expected)
