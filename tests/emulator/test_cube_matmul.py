"""A complete product, GM -> L1 -> L0 -> Mmad -> Fixpipe, against NumPy."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel
from tests.emulator.cube_kernel import (
    build,
    cube_kernel,
    launch,
    matmul_body,
    ordered_product,
    random_values,
)

CASES = {
    "f32": (DType.F32, DType.F32),
    "bf16": (DType.BF16, DType.F32),
    "bf16_narrow": (DType.BF16, DType.BF16),
    "f16": (DType.F16, DType.F32),
    "f16_narrow": (DType.F16, DType.F16),
    "i8": (DType.I8, DType.I32),
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, BuiltKernel]:
    return build(
        *(
            cube_kernel(f"matmul_{case}", matmul_body(out), dtype, out=out)
            for case, (dtype, out) in CASES.items()
        )
    )


@pytest.mark.parametrize("case", CASES)
@given(m=st.integers(2, 100), n=st.integers(1, 100), k=st.integers(1, 100), seed=st.integers(0, 99))
def test_product_is_the_ordered_sum(
    kernels: dict[str, BuiltKernel], case: str, m: int, n: int, k: int, seed: int
) -> None:
    dtype, out = CASES[case]
    random = np.random.default_rng(seed)
    a, b = random_values(random, (m, k), dtype), random_values(random, (n, k), dtype)
    c = launch(kernels[f"matmul_{case}"], a, b, (m, n, k), out)
    expected = ordered_product(a, b).astype(out.numpy)
    np.testing.assert_array_equal(c[: m * n].reshape(m, n), expected)


@pytest.mark.parametrize("case", CASES)
def test_nothing_is_written_behind_the_result(kernels: dict[str, BuiltKernel], case: str) -> None:
    dtype, out = CASES[case]
    random = np.random.default_rng(0)
    a, b = random_values(random, (19, 5), dtype), random_values(random, (7, 5), dtype)
    untouched = launch(kernels[f"matmul_{case}"], a, b, (19, 7, 5), out)[19 * 7 :]
    assert np.all(np.isnan(untouched) if out.is_float else untouched == -1)
