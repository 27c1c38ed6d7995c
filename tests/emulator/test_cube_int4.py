"""Products of four-bit codes, two in a byte, against NumPy, and what is refused of them."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.ir.code_pairs import pack_pairs, unpack_pairs
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError
from tests.emulator.cube_kernel import CAPACITY, build, cube_kernel, launch, matmul_body

PAIRS = (
    ("using T = int8_t;", "using T = int8_t; using Codes = int4b_t;"),
    ("const uint32_t k = q[2];", "const uint32_t k = q[2] / 2;  // bytes"),
    ("mmad.k = k;", "mmad.k = q[2];"),
    (
        "Mmad(l0c, a2, b2, mmad);",
        "Mmad(l0c, a2.ReinterpretCast<Codes>(), b2.ReinterpretCast<Codes>(), mmad);",
    ),
)
LOADED = (
    (
        "LoadData(b2, b1, load);",
        "LoadData(b2.ReinterpretCast<Codes>(), b1.ReinterpretCast<Codes>(), load);",
    ),
)
STEPS = (
    (
        "    Mmad(l0c, a2.ReinterpretCast<Codes>(), b2.ReinterpretCast<Codes>(), mmad);",
        "    Mmad(l0c, a2.ReinterpretCast<Codes>(), b2.ReinterpretCast<Codes>(), mmad);\n"
        "    mmad.cmatrixInitVal = false;\n    PipeBarrier<PIPE_M>();\n"
        "    Mmad(l0c, a2.ReinterpretCast<Codes>(), b2.ReinterpretCast<Codes>(), mmad);",
    ),
)


def kernel(name: str, *changes: tuple[str, str]) -> Kernel:
    made = cube_kernel(name, matmul_body(DType.I32), DType.I8, out=DType.I32)
    source = made.source
    for old, new in (*PAIRS, *changes):
        assert source.count(old) == 1, old
        source = source.replace(old, new)
    return Kernel(name, "test", made.kind, 1, made.arguments, source)


@pytest.fixture(scope="module")
def kernels() -> dict[str, BuiltKernel]:
    return build(
        kernel("pairs"),
        kernel("twice", *LOADED, *STEPS),
        kernel("misplaced", ("a2(TPosition::A2, 0,", "a2(TPosition::A2, 256, 32768 + 0 *")),
    )


def random_codes(seed: int, *shape: int) -> NDArray[np.int64]:
    return np.random.default_rng(seed).integers(-8, 8, shape)


def product(built: BuiltKernel, a: NDArray[np.int64], b: NDArray[np.int64]) -> NDArray[np.generic]:
    (m, k), n = a.shape, len(b)
    stored = (pack_pairs(each).astype(np.uint8).view(np.int8) for each in (a, b))
    return launch(built, *stored, (m, n, k), DType.I32)[: m * n].reshape(m, n)


def test_pairs_are_codes_in_the_order_of_the_chip() -> None:
    codes = np.array([[-8, 7, -1, 0], [3, -5, 1, 2]])
    pairs = pack_pairs(codes)
    assert pairs.tolist() == [[0x78, 0x0F], [0xB3, 0x21]]
    np.testing.assert_array_equal(unpack_pairs(pairs), codes)


@pytest.mark.parametrize(("name", "times"), [("pairs", 1), ("twice", 2)])
@given(
    sizes=st.tuples(st.integers(2, 70), st.integers(1, 70), st.integers(1, 100)),
    seed=st.integers(0, 9),
)
def test_products_are_exact(
    kernels: dict[str, BuiltKernel], name: str, times: int, sizes: tuple[int, int, int], seed: int
) -> None:
    m, n, half = sizes
    a, b = random_codes(seed, m, 2 * half), random_codes(seed + 1, n, 2 * half)
    np.testing.assert_array_equal(product(kernels[name], a, b), times * a @ b.T)


def test_the_smallest_codes_have_the_largest_product(kernels: dict[str, BuiltKernel]) -> None:
    a = np.full((3, 200), -8)
    assert (product(kernels["pairs"], a, a) == 200 * 64).all()
    assert (product(kernels["twice"], a, a) == 2 * 200 * 64).all()


def test_an_odd_number_of_terms_is_a_fault(kernels: dict[str, BuiltKernel]) -> None:
    zeros = np.zeros(CAPACITY, np.int8)
    with pytest.raises(EmulatorError, match=r"MmadParams.k = 5: two int4b_t share a byte"):
        launch(kernels["pairs"], zeros, zeros, (4, 4, 5), DType.I32)


def test_a_misplaced_operand_is_a_fault(kernels: dict[str, BuiltKernel]) -> None:
    zeros = np.zeros(CAPACITY, np.int8)
    with pytest.raises(EmulatorError, match=r"alignment.*multiple of 512"):
        launch(kernels["misplaced"], zeros, zeros, (4, 4, 8), DType.I32)
