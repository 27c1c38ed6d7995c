"""Cast for every value of the 16-bit formats and around every rounding boundary of the others."""

import numpy as np
import pytest
from ml_dtypes import bfloat16
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import EmulatorError
from tests.emulator.vector_kernel import CPP_TYPES, make_kernel, result, run, source

pytestmark = pytest.mark.filterwarnings("ignore:invalid value encountered:RuntimeWarning")  # NaN

TILE = 4096
MODES = ("NONE", "RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD")
ALL_16_BIT = np.arange(65536, dtype=np.uint16)
Array = NDArray[np.generic]


def cast_kernel(source_type: DType, target_type: DType, elements: int) -> Kernel:
    a, d = CPP_TYPES[source_type], CPP_TYPES[target_type]
    cases = "\n".join(
        f"case {i}: Cast(d, a, RoundMode::CAST_{mode}, {TILE}); break;"
        for i, mode in enumerate(MODES)
    )
    body = f"""
InitSocState();
LocalTensor<{a}> a(TPosition::VECIN, 0, {TILE});
LocalTensor<{d}> d(TPosition::VECOUT, 65536, {TILE});
for (uint32_t start = 0; start < {elements}; start += {TILE}) {{
DataCopy(a, aGm[start], {TILE});
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0);
switch (modeGm.GetValue(0)) {{
{cases}
}}
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(outGm[start], d, {TILE});
PipeBarrier<PIPE_ALL>();
}}
"""
    arguments = [
        source(source_type, "a", elements),
        source(DType.I32, "mode", 8),
        result(target_type, "out", elements),
    ]
    return make_kernel(f"cast_{source_type.value}_{target_type.value}", body, arguments)


def cast(values: Array, source_type: DType, target_type: DType, mode: str) -> Array:
    padded = np.resize(values, -(-len(values) // TILE) * TILE)
    kernel = cast_kernel(source_type, target_type, len(padded))
    (out,) = run(kernel, padded, np.full(8, MODES.index(mode), np.int32))
    return out[: len(values)]


def boundaries(target: np.dtype[np.generic]) -> Array:
    """Floats on, just below and just above every value of ``target`` and every midpoint."""
    grid = ALL_16_BIT.view(target).astype(np.float32)
    grid = np.unique(grid[np.isfinite(grid)])
    with np.errstate(over="ignore"):
        middle = (grid[1:].astype(np.float64) + grid[:-1]) / 2
        points = np.concatenate([grid, middle.astype(np.float32)])
        near = [
            points,
            np.nextafter(points, np.float32(np.inf)),
            np.nextafter(points, -np.float32(np.inf)),
        ]
    extra = np.array(
        [np.inf, -np.inf, np.nan, 1e-45, -1e-45, 65519.9, 65520, 65536, 3.4e38, -3.4e38], np.float32
    )
    return np.unique(np.concatenate([*near, extra]))


def round_to_grid(values: Array, target: np.dtype[np.generic], mode: str) -> Array:
    """The result by definition: one of the two neighbours in the target format.

    Magnitudes are the positive codes of the format in order, infinity standing for the value that
    would follow the largest; all sums are exact in float64 (53 bits hold any two neighbours).
    """
    infinity = int(np.array(np.inf, np.float32).astype(target).view(np.uint16))
    grid = ALL_16_BIT[:infinity].view(target).astype(np.float64)
    grid = np.append(grid, 2 * grid[-1] - grid[-2])
    number = np.isfinite(values)
    magnitude = np.abs(np.where(number, values, 0).astype(np.float64))
    low = np.minimum(np.searchsorted(grid, magnitude, side="right") - 1, infinity - 1)
    rest, step = magnitude - grid[low], grid[low + 1] - grid[low]
    negative, inexact, odd = np.signbit(values), rest > 0, low % 2 == 1
    up = {
        "RINT": (2 * rest > step) | ((2 * rest == step) & odd),
        "ROUND": inexact & (2 * rest >= step),
        "FLOOR": inexact & negative,
        "CEIL": inexact & ~negative,
        "TRUNC": np.zeros_like(inexact),
        "ODD": inexact & ~odd,
    }[mode]
    code = np.where(number, low + up, infinity).astype(np.uint16)
    code[np.isnan(values)] += 1
    return np.copysign(code.view(target).astype(np.float32), values).astype(target)


@pytest.mark.parametrize("mode", ["RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "ODD"])
def test_float_to_half(mode: str) -> None:
    values = boundaries(np.dtype(np.float16))
    out = cast(values, DType.F32, DType.F16, mode)
    expected = round_to_grid(values, np.dtype(np.float16), mode)
    np.testing.assert_array_equal(out, expected)
    np.testing.assert_array_equal(np.signbit(out), np.signbit(expected))


@pytest.mark.parametrize("mode", ["RINT", "FLOOR", "CEIL", "ROUND", "TRUNC"])
def test_float_to_bfloat16(mode: str) -> None:
    values = boundaries(np.dtype(bfloat16))
    out = cast(values, DType.F32, DType.BF16, mode)
    expected = round_to_grid(values, np.dtype(bfloat16), mode)
    np.testing.assert_array_equal(out.astype(np.float32), expected.astype(np.float32))


def test_nearest_is_what_numpy_and_ml_dtypes_do() -> None:
    values = boundaries(np.dtype(bfloat16))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(
            cast(values, DType.F32, DType.F16, "NONE"), values.astype(np.float16)
        )
    np.testing.assert_array_equal(
        cast(values, DType.F32, DType.BF16, "RINT").astype(np.float32),
        values.astype(bfloat16).astype(np.float32),
    )


@pytest.mark.parametrize("source_type", [DType.F16, DType.BF16])
def test_widening_is_exact_for_all_values(source_type: DType) -> None:
    values = ALL_16_BIT.view(source_type.numpy)
    out = cast(values, source_type, DType.F32, "NONE")
    np.testing.assert_array_equal(out, values.astype(np.float32))


ROUNDED = {
    "RINT": np.rint,
    "FLOOR": np.floor,
    "CEIL": np.ceil,
    "TRUNC": np.trunc,
    "ROUND": lambda x: np.copysign(np.floor(np.abs(x) + 0.5), x),
}


def to_integer(values: Array, dtype: DType, mode: str) -> Array:
    limits = np.iinfo(dtype.numpy)
    rounded = ROUNDED[mode](
        np.nan_to_num(values.astype(np.float64), nan=0, posinf=1e300, neginf=-1e300)
    )
    return np.clip(rounded, limits.min, limits.max).astype(np.int64).astype(dtype.numpy)


@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize("target", [DType.I8, DType.I32])
def test_half_to_integers_for_all_values(target: DType, mode: str) -> None:
    values = ALL_16_BIT.view(np.float16)
    out = cast(values, DType.F16, target, mode)
    np.testing.assert_array_equal(out, to_integer(values, target, mode))


@pytest.mark.parametrize("mode", ROUNDED)
@pytest.mark.parametrize("source_type", [DType.F32, DType.BF16])
def test_floats_to_int32(source_type: DType, mode: str) -> None:
    values = boundaries(np.dtype(bfloat16))
    values = np.concatenate([values, np.float32(2.0) ** np.arange(0, 33) + np.float32(0.5)])
    values = values.astype(source_type.numpy)
    out = cast(values, source_type, DType.I32, mode)
    np.testing.assert_array_equal(out, to_integer(values.astype(np.float32), DType.I32, mode))


@pytest.mark.parametrize("mode", ["RINT", "FLOOR", "CEIL", "ROUND", "TRUNC", "NONE"])
def test_int32_to_float(mode: str) -> None:
    random = np.random.default_rng(0)
    values = random.integers(-(2**31), 2**31, 20_000).astype(np.int32)
    values[:8] = [0, 1, -1, 2**24 + 1, -(2**24) - 1, 2**31 - 1, -(2**31), 2**25 + 2]
    out = cast(values, DType.I32, DType.F32, mode)
    nearest = values.astype(np.float32)
    error = nearest.astype(np.float64) - values
    below = np.where(error > 0, np.nextafter(nearest, np.float32(-np.inf)), nearest)
    above = np.where(error < 0, np.nextafter(nearest, np.float32(np.inf)), nearest)
    inner, outer = np.where(values < 0, above, below), np.where(values < 0, below, above)
    tie = np.abs(inner.astype(np.float64) - values) == np.abs(outer.astype(np.float64) - values)
    expected = {
        "FLOOR": below,
        "CEIL": above,
        "TRUNC": inner,
        "ROUND": np.where(tie, outer, nearest),
    }.get(mode, nearest)
    np.testing.assert_array_equal(out, expected)


def test_a_mode_the_conversion_does_not_list_is_a_fault() -> None:
    with pytest.raises(EmulatorError, match="does not list RoundMode::CAST_NONE"):
        cast(np.zeros(TILE, np.float32), DType.F32, DType.BF16, "NONE")
