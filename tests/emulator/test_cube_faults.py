"""Every planted mistake in a cube kernel is reported, with its kind and its line."""

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import KernelKind
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError
from tests.emulator.cube_kernel import (
    build,
    cube_kernel,
    launch,
    matmul_body,
    random_values,
)
from tests.emulator.vector_kernel import make_kernel, source

# name -> (old text, new text, what the error says)
MISTAKES = {
    "l0c_misaligned": (
        "l0c(TPosition::CO1, 0, 131072 / sizeof(C))",
        "l0c(TPosition::CO1, 512, 64512 / sizeof(C))",
        "alignment.*C starts at 512, not a multiple of 1024",
    ),
    "l0a_misaligned": (
        "a2(TPosition::A2, 0, 65536 / sizeof(T))",
        "a2(TPosition::A2, 256, 32768 / sizeof(T))",
        "alignment.*multiple of 512",
    ),
    "l1_misaligned": (
        "a1(TPosition::A1, 0, 131072 / sizeof(T))",
        "a1(TPosition::A1, 16, 65536 / sizeof(T))",
        "alignment.*multiple of 32",
    ),
    "no_flag_mte2_mte1": ("    Pass<HardEvent::MTE2_MTE1>();\n", "", "race.*MTE2_MTE1"),
    "no_flag_mte1_m": ("    Pass<HardEvent::MTE1_M>();\n", "", "race.*MTE1_M"),
    "no_flag_m_fix": ("    Pass<HardEvent::M_FIX>();\n", "", "race.*M_FIX"),
    "l0a_overflow": (
        "a2(TPosition::A2, 0, 65536 / sizeof(T))",
        "a2(TPosition::A2, 0, 512 / sizeof(T))",
        "bounds",
    ),
    "gm_overflow": ("    fix.dstStride = n;", "    fix.dstStride = 1000;", "bounds"),
    "rows_overlap": ("    fix.dstStride = n;", "    fix.dstStride = n - 1;", "overlap"),
    "source_stride": (
        "    fix.srcStride = Tiles(m, 16) * 16;",
        "    fix.srcStride = m;",
        "srcStride",
    ),
    "source_stride_next_tile": (
        "    fix.srcStride = Tiles(m, 16) * 16;",
        "    fix.srcStride = Tiles(m, 16) * 16 + 16;",
        "poison",
    ),
    "too_many_rows": (
        "    fix.mSize = m;",
        "    fix.mSize = Tiles(m, 16) * 16;",
        "poison",
    ),
    "wrong_quant": ("NoQuant;", "F322BF16;", "quantPre does not convert"),
    "load_stride": (
        "        load.srcStride = Tiles(m, 16);",
        "        load.srcStride = 1;",
        "poison",
    ),
    "k_wraps": ("    mmad.k = k;", "    mmad.k = k + 65536;", r"MmadParams\.k = 65556"),
    "k_too_large": ("    mmad.k = k;", "    mmad.k = k + 8;", "poison|bounds"),
    "padding_rows_used": ("    mmad.m = m;", "    mmad.m = m + 1;", "poison"),
    "nd_stride_wraps": (
        "        nd.nValue = m;\n        nd.dValue = k;\n        nd.srcDValue = k;",
        "        nd.nValue = m;\n        nd.dValue = k;\n        nd.srcDValue = 70000;",
        r"Nd2NzParams\.srcDValue = 70000",
    ),
    "nd_blocks_overlap": (
        "        nd.dstNzC0Stride = Tiles(m, 16) * 16;",
        "        nd.dstNzC0Stride = m - 1;",
        "over each other",
    ),
    "no_barrier": (
        "    Mmad(l0c, a2, b2, mmad);\n",
        "    Mmad(l0c, a2, b2, mmad);\n    mmad.cmatrixInitVal = false;\n"
        "    Mmad(l0c, a2, b2, mmad);\n",
        "race.*PipeBarrier<PIPE_M>",
    ),
    "hf32": (
        "    Mmad(l0c, a2, b2, mmad);\n",
        "    SetHF32Mode(HF32Mode::ENABLE);\n    Mmad(l0c, a2, b2, mmad);\n",
        "HF32 is not emulated",
    ),
    "abandoned_bias": (
        "    mmad.k = k;",
        "    mmad.k = k;\n    mmad.isBias = true;",
        "isBias is abandoned",
    ),
}


@pytest.fixture(scope="module")
def kernels() -> dict[str, BuiltKernel]:
    body = matmul_body(DType.F32)
    return build(
        cube_kernel("right", body, DType.F32),
        *(
            cube_kernel(name, body, DType.F32, replace=(old, new))
            for name, (old, new, _) in MISTAKES.items()
        ),
    )


def run(kernel: BuiltKernel, *, nan: bool = False) -> None:
    random = np.random.default_rng(0)
    m, n, k = 35, 33, 20
    a, b = random_values(random, (m, k), DType.F32), random_values(random, (n, k), DType.F32)
    if nan:
        a[34, 19] = np.nan
    launch(kernel, a, b, (m, n, k), DType.F32)


def test_the_kernel_without_a_mistake_runs(kernels: dict[str, BuiltKernel]) -> None:
    run(kernels["right"])


@pytest.mark.parametrize("name", MISTAKES)
def test_mistake_is_reported(kernels: dict[str, BuiltKernel], name: str) -> None:
    with pytest.raises(EmulatorError, match=f"(?s){MISTAKES[name][2]}") as caught:
        run(kernels[name])
    assert caught.value.line > 0
    assert caught.value.kernel == name


def test_nan_in_a_is_reported(kernels: dict[str, BuiltKernel]) -> None:
    with pytest.raises(EmulatorError, match=r"A\[34, 19\] is NaN"):
        run(kernels["right"], nan=True)


def test_large_products_need_no_barrier(kernels: dict[str, BuiltKernel]) -> None:
    # (m / 16) * (n / 16) = 4 * 4 >= 10: the hardware orders the two products itself.
    random = np.random.default_rng(0)
    a, b = random_values(random, (64, 20), DType.F32), random_values(random, (64, 20), DType.F32)
    launch(kernels["no_barrier"], a, b, (64, 64, 20), DType.F32)


def test_a_bias_of_part_of_a_unit_is_refused() -> None:
    body = """
InitSocState();
LocalTensor<float> bias1(TPosition::C1, 0, 256);
LocalTensor<float> bias2(TPosition::C2, 0, 256);
DataCopy(bias1, xGm, 256);
PipeBarrier<PIPE_ALL>();
DataCopy(bias2, bias1, COUNT);
PipeBarrier<PIPE_ALL>();
"""
    arguments = [source(DType.F32, "x", 256)]
    x = np.ones(256, np.float32)
    for count in (16, 24):
        text = body.replace("COUNT", str(count))
        kernel = make_kernel(f"bias{count}", text, arguments, kind=KernelKind.CUBE)
        built = build(kernel)[kernel.name]
        if count == 16:
            built.launch([x])
            continue
        with pytest.raises(EmulatorError, match="DataCopy of 96 bytes to the bias table"):
            built.launch([x])
