"""Loads into L0A and L0B: a product with the identity shows where every element went."""

from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError
from tests.emulator.cube_kernel import (
    FIXPIPE,
    LOAD_A,
    LOAD_B,
    MMAD,
    QUANT,
    SIZES,
    build,
    cube_kernel,
    launch,
    nd_to_nz,
    pass_to,
    random_values,
)

# A [k, m] in GM; every 16-row tile of L1 is [columns/K0][16][K0], so that squares are contiguous.
SLABS = """\
    for (uint32_t i = 0; i < Tiles({rows}, 16); ++i) {{
        Nd2NzParams nd;
        nd.ndNum = 1;
        nd.nValue = {rows} - i * 16 < 16 ? {rows} - i * 16 : 16;
        nd.dValue = {columns};
        nd.srcDValue = {columns};
        nd.dstNzC0Stride = 16;
        nd.dstNzNStride = 1;
        DataCopy({dst}[i * Tiles({columns}, 16) * 256], {src}[i * 16 * {columns}], nd);
    }}
"""

# NZ squares of A [k, m]: column tiles of A are row tiles of Aᵀ.
LOAD_A_TRANSPOSED = """\
    for (uint32_t i = 0; i < Tiles(m, 16); ++i) {
        LoadData2DParams load;
        load.repeatTimes = Tiles(k, 16);
        load.srcStride = 1;
        load.ifTranspose = true;
        LoadData(a2[i * Tiles(k, 16) * 256], a1[i * Tiles(k, 16) * 256], load);
    }
"""

SQUARES_A = {
    2: """\
    for (uint32_t i = 0; i < Tiles(m, 16); ++i) {
        LoadData2dTransposeParams load;
        load.repeatTimes = Tiles(k, 16);
        load.srcStride = 1;
        LoadDataWithTranspose(a2[i * Tiles(k, 16) * 256], a1[i * Tiles(k, 16) * 256], load);
    }
""",
    1: """\
    for (uint32_t i = 0; i < Tiles(m, 32); ++i) {
        LoadData2dTransposeParams load;
        load.repeatTimes = Tiles(k, 32);
        load.srcStride = 1;
        load.dstFracGap = Tiles(k, 32) - 1;
        LoadDataWithTranspose(a2[i * Tiles(k, 32) * 1024], a1[i * Tiles(k, 32) * 1024], load);
    }
""",
    4: """\
    for (uint32_t i = 0; i < Tiles(m, 16); ++i) {
        LoadData2dTransposeParams load;
        load.startIndex = i;
        load.repeatTimes = Tiles(k, 16);
        load.srcStride = Tiles(m, 16);
        load.dstGap = 1;
        LoadDataWithTranspose(a2[i * Tiles(k, 16) * 256], a1, load);
    }
""",
}

# B [k, n]: k tiles outermost in L0B.
SQUARES_B = {
    2: """\
    for (uint32_t i = 0; i < Tiles(k, 16); ++i) {
        LoadData2dTransposeParams load;
        load.startIndex = i;
        load.repeatTimes = Tiles(n, 16);
        load.srcStride = Tiles(k, 16);
        LoadDataWithTranspose(b2[i * Tiles(n, 16) * 256], b1, load);
    }
""",
    1: """\
    for (uint32_t i = 0; i < Tiles(k, 32); ++i) {
        LoadData2dTransposeParams load;
        load.startIndex = i;
        load.repeatTimes = Tiles(n, 32);
        load.srcStride = Tiles(k, 32);
        load.dstGap = 1;
        LoadDataWithTranspose(b2[i * Tiles(n, 32) * 1024], b1, load);
    }
""",
    4: """\
    for (uint32_t i = 0; i < Tiles(k, 16); ++i) {
        LoadData2dTransposeParams load;
        load.repeatTimes = Tiles(n, 16);
        load.srcStride = 1;
        load.dstFracGap = Tiles(n, 16) - 1;
        LoadDataWithTranspose(b2[i * Tiles(n, 16) * 256], b1[i * Tiles(n, 16) * 256], load);
    }
""",
}

LOAD_3D = """\
    {{
        LoadData3DParamsV2<T> load;
        load.l1H = 1;
        load.l1W = Tiles({rows}, 16) * 16;
        load.channelSize = Tiles({columns}, K0) * K0;
        load.kExtension = {columns};
        load.mExtension = {extension};
        load.enTranspose = {transpose};
        LoadData({dst}, {src}, load);
    }}
"""


def load_3d(dst: str, src: str, rows: str, columns: str, *, transpose: bool) -> str:
    extension = f"Tiles({rows}, 16) * 16" if transpose else rows
    return LOAD_3D.format(
        dst=dst,
        src=src,
        rows=rows,
        columns=columns,
        extension=extension,
        transpose=str(transpose).lower(),
    )


def body(prepare: str, load: str, dtype: DType, *, align: bool = False) -> str:
    mmad = (
        MMAD.replace("    Mmad(", "    mmad.kDirectionAlign = true;\n    Mmad(") if align else MMAD
    )
    quant = QUANT[DType.I32 if dtype is DType.I8 else DType.F32]
    return (
        SIZES
        + prepare
        + pass_to("MTE2", "MTE1")
        + load
        + pass_to("MTE1", "M")
        + mmad
        + pass_to("M", "FIX")
        + FIXPIPE.format(quant=quant)
    )


A_KM = nd_to_nz("a1", "aGm", "k", "m")
B_NK = nd_to_nz("b1", "bGm", "n", "k")
A_MK = nd_to_nz("a1", "aGm", "m", "k")
B_KN = nd_to_nz("b1", "bGm", "k", "n")
A_SLABS = SLABS.format(dst="a1", src="aGm", rows="k", columns="m")
B_SLABS = SLABS.format(dst="b1", src="bGm", rows="k", columns="n")


@dataclass(frozen=True, slots=True)
class Variant:
    """A way into L0.

    Attributes:
        dtype: Of both operands.
        text: Body of the kernel.
        stored: Which operand GM holds transposed: ``a`` as [k, m], ``b`` as [k, n], or none.
    """

    dtype: DType
    text: str
    stored: str = ""


def variants_of(dtype: DType) -> dict[str, Variant]:
    """Return every load that exists for a type."""
    a_stored = A_SLABS if dtype.bytes == 4 else A_KM
    b_stored = B_SLABS if dtype.bytes == 4 else B_KN
    squares_a, squares_b = SQUARES_A[dtype.bytes] + LOAD_B, LOAD_A + SQUARES_B[dtype.bytes]
    plain = load_3d("a2", "a1", "m", "k", transpose=False) + LOAD_B
    loads = {
        "squares_a": Variant(dtype, body(a_stored + B_NK, squares_a, dtype, align=True), "a"),
        "squares_b": Variant(dtype, body(A_MK + b_stored, squares_b, dtype), "b"),
        "plain_3d": Variant(dtype, body(A_MK + B_NK, plain, dtype)),
    }
    if dtype.bytes > 1:
        to_a = load_3d("a2", "a1", "k", "m", transpose=True) + LOAD_B
        to_b = LOAD_A + load_3d("b2", "b1", "k", "n", transpose=True)
        loads["transposed_3d_a"] = Variant(dtype, body(A_KM + B_NK, to_a, dtype, align=True), "a")
        loads["transposed_3d_b"] = Variant(dtype, body(A_MK + B_KN, to_b, dtype), "b")
    if dtype.bytes == 2:
        text = body(A_KM + B_NK, LOAD_A_TRANSPOSED + LOAD_B, dtype)
        loads["transposed_2d_a"] = Variant(dtype, text, "a")
    return {f"{name}_{dtype.value}": variant for name, variant in loads.items()}


VARIANTS = {
    name: variant
    for dtype in (DType.F32, DType.BF16, DType.F16, DType.I8)
    for name, variant in variants_of(dtype).items()
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, BuiltKernel]:
    return build(*(cube_kernel(name, each.text, each.dtype) for name, each in VARIANTS.items()))


@pytest.mark.parametrize("name", VARIANTS)
@given(data=st.data())
def test_every_element_arrives(
    kernels: dict[str, BuiltKernel], name: str, data: st.DataObject
) -> None:
    dtype, stored = VARIANTS[name].dtype, VARIANTS[name].stored
    out = DType.I32 if dtype is DType.I8 else DType.F32
    edge = 32 if dtype is DType.I8 and stored else 1
    size = st.integers(max(1, 2 // edge), 100 // edge).map(lambda x: x * edge)
    wide, k = data.draw(size), data.draw(size)
    random = np.random.default_rng(data.draw(st.integers(0, 9)))
    identity = np.eye(k, dtype=dtype.numpy)
    if stored == "b":
        b = random_values(random, (k, wide), dtype)
        c = launch(kernels[name], identity, b, (k, wide, k), out)[: k * wide]
        expected = b.astype(out.numpy)
    else:
        a = random_values(random, (wide, k), dtype)
        left = np.ascontiguousarray(a.T) if stored == "a" else a
        c = launch(kernels[name], left, identity, (wide, k, k), out)
        c, expected = c[: wide * k], a.astype(out.numpy)
    np.testing.assert_array_equal(c.reshape(expected.shape), expected)


TRANSPOSING = [name for name, variant in VARIANTS.items() if variant.stored]


@pytest.fixture(scope="module")
def kernels_that_read_too_deep() -> dict[str, BuiltKernel]:
    return build(
        *(
            cube_kernel(
                name,
                VARIANTS[name].text,
                VARIANTS[name].dtype,
                replace=("    mmad.k = k;", "    mmad.k = k + 1;"),
            )
            for name in TRANSPOSING
        )
    )


@pytest.mark.parametrize("name", TRANSPOSING)
def test_rows_that_were_never_copied_stay_unusable(
    kernels_that_read_too_deep: dict[str, BuiltKernel], name: str
) -> None:
    # 20 rows of [k, m] or [k, n] lie in L1; the load moves whole fractals of 32.
    dtype = VARIANTS[name].dtype
    out = DType.I32 if dtype is DType.I8 else DType.F32
    square = np.zeros((32, 20), dtype.numpy)
    with pytest.raises(EmulatorError, match="emulator-poison"):
        launch(kernels_that_read_too_deep[name], square, square, (32, 32, 20), out)
