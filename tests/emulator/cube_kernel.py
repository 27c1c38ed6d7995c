"""Hand-written cube kernels for the tests of the emulator's cube instructions.

Every kernel has the arguments ``a``, ``b`` (element type ``T``), ``p`` (16 int32 parameters) and
``c``, all of fixed capacity; the shapes are read from ``p``, so that one build serves many shapes.
Memory is laid out by hand (static-tensor style); one core does everything.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument, KernelKind
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels

CAPACITY = 16384
"""Elements of ``a``, ``b`` and ``c``."""

PARAMETERS = 16

CPP_TYPES = {
    DType.F32: "float",
    DType.F16: "half",
    DType.BF16: "bfloat16_t",
    DType.I8: "int8_t",
    DType.I32: "int32_t",
}

_TEMPLATE = """\
#include "kernel_operator.h"

using namespace AscendC;

using T = @T@;
using C = @C@;                                 // in L0C
using Out = @OUT@;                             // in GM
constexpr uint32_t K0 = 32 / sizeof(T);        // columns of a fractal
constexpr uint32_t FRACTAL = 16 * K0;          // elements of a fractal

__aicore__ inline uint32_t Tiles(uint32_t value, uint32_t by) { return (value + by - 1) / by; }

template <HardEvent event>
__aicore__ inline void Pass()
{
    SetFlag<event>(0);
    WaitFlag<event>(0);
}

extern "C" __global__ __aicore__ void @NAME@(GM_ADDR a, GM_ADDR b, GM_ADDR p, GM_ADDR c)
{
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    InitSocState();
    GlobalTensor<T> aGm;
    GlobalTensor<T> bGm;
    GlobalTensor<int32_t> pGm;
    GlobalTensor<Out> cGm;
    aGm.SetGlobalBuffer((__gm__ T *)a, @CAPACITY@);
    bGm.SetGlobalBuffer((__gm__ T *)b, @CAPACITY@);
    pGm.SetGlobalBuffer((__gm__ int32_t *)p, @PARAMETERS@);
    cGm.SetGlobalBuffer((__gm__ Out *)c, @CAPACITY@);
    int32_t q[@PARAMETERS@];
    for (int32_t i = 0; i < @PARAMETERS@; ++i) {
        q[i] = pGm.GetValue(i);
    }
    LocalTensor<T> a1(TPosition::A1, 0, 131072 / sizeof(T));
    LocalTensor<T> b1(TPosition::B1, 131072, 131072 / sizeof(T));
    LocalTensor<T> a2(TPosition::A2, 0, 65536 / sizeof(T));
    LocalTensor<T> b2(TPosition::B2, 0, 65536 / sizeof(T));
    LocalTensor<C> l0c(TPosition::CO1, 0, 131072 / sizeof(C));
@BODY@
    PipeBarrier<PIPE_ALL>();
}
"""

# GM [rows, columns] to L1 in NZ order, 16-row tiles.
ND_TO_NZ = """\
    {{
        Nd2NzParams nd;
        nd.ndNum = 1;
        nd.nValue = {rows};
        nd.dValue = {columns};
        nd.srcDValue = {columns};
        nd.dstNzC0Stride = Tiles({rows}, 16) * 16;
        nd.dstNzNStride = 1;
        DataCopy({dst}, {src}, nd);
    }}
"""

# A [m, k] from NZ to Zz.
LOAD_A = """\
    for (uint32_t i = 0; i < Tiles(m, 16); ++i) {
        LoadData2DParams load;
        load.repeatTimes = Tiles(k, K0);
        load.srcStride = Tiles(m, 16);
        LoadData(a2[i * Tiles(k, K0) * FRACTAL], a1[i * FRACTAL], load);
    }
"""

# B [n, k] from NZ to Zn: the orders are the same.
LOAD_B = """\
    {
        LoadData2DParams load;
        load.repeatTimes = Tiles(k, K0) * Tiles(n, 16);
        load.srcStride = 1;
        LoadData(b2, b1, load);
    }
"""

MMAD = """\
    MmadParams mmad;
    mmad.m = m;
    mmad.n = n;
    mmad.k = k;
    Mmad(l0c, a2, b2, mmad);
"""

FIXPIPE = """\
    FixpipeParamsV220 fix;
    fix.nSize = n;
    fix.mSize = m;
    fix.srcStride = Tiles(m, 16) * 16;
    fix.dstStride = n;
    fix.quantPre = {quant};
    Fixpipe<Out, C, CFG_ROW_MAJOR>(cGm, l0c, fix);
"""

SIZES = """\
    const uint32_t m = q[0];
    const uint32_t n = q[1];
    const uint32_t k = q[2];
"""

QUANT = {DType.F32: "QuantMode_t::NoQuant", DType.I32: "QuantMode_t::NoQuant"} | {
    DType.F16: "QuantMode_t::F322F16",
    DType.BF16: "QuantMode_t::F322BF16",
}


def nd_to_nz(dst: str, src: str, rows: str, columns: str) -> str:
    """Return the copy of a row-major matrix from GM to L1."""
    return ND_TO_NZ.format(dst=dst, src=src, rows=rows, columns=columns)


def pass_to(source: str, target: str) -> str:
    """Return an event that makes pipe ``target`` wait for pipe ``source``."""
    return f"    Pass<HardEvent::{source}_{target}>();\n"


def cube_kernel(
    name: str, body: str, dtype: DType, *, out: DType | None = None, replace: Sequence[str] = ()
) -> Kernel:
    """Return a kernel around ``body``; ``replace`` is one (old, new) pair that must occur."""
    result = DType.I32 if dtype is DType.I8 else DType.F32
    out = out or result
    source = _TEMPLATE.replace("@BODY@", body)
    for key, value in {
        "T": CPP_TYPES[dtype],
        "C": CPP_TYPES[result],
        "OUT": CPP_TYPES[out],
        "NAME": name,
        "CAPACITY": str(CAPACITY),
        "PARAMETERS": str(PARAMETERS),
    }.items():
        source = source.replace(f"@{key}@", value)
    if replace:
        old, new = replace
        assert source.count(old) == 1, f"`{old}` occurs {source.count(old)} times"
        source = source.replace(old, new)
    return Kernel(
        name=name,
        family="test",
        kind=KernelKind.CUBE,
        blocks=1,
        arguments=(
            KernelArgument("a", dtype, Direction.IN, CAPACITY),
            KernelArgument("b", dtype, Direction.IN, CAPACITY),
            KernelArgument("p", DType.I32, Direction.IN, PARAMETERS),
            KernelArgument("c", out, Direction.IN_OUT, CAPACITY),
        ),
        source=source,
    )


def build(*kernels: Kernel) -> dict[str, BuiltKernel]:
    """Build kernels for the 910B2."""
    return build_kernels(kernels, find_target("ascend910b"))


def launch(
    kernel: BuiltKernel,
    a: NDArray[np.generic],
    b: NDArray[np.generic],
    parameters: Sequence[int],
    out: DType,
    *,
    start: NDArray[np.generic] | None = None,
) -> NDArray[np.generic]:
    """Launch and return all of ``c``; where ``start`` gives nothing, it begins as -1 or NaN."""
    p = np.zeros(PARAMETERS, np.int32)
    p[: len(parameters)] = parameters
    c = np.full(CAPACITY, -1 if out in {DType.I32, DType.I8} else np.nan, out.numpy)
    if start is not None:
        c[: start.size] = start.ravel()
    kernel.launch([_padded(a), _padded(b), p, c])
    return c


def _padded(values: NDArray[np.generic]) -> NDArray[np.generic]:
    full = np.zeros(CAPACITY, values.dtype)
    full[: values.size] = values.ravel()
    return full


def matmul_body(out: DType) -> str:
    """Return ``c [m, n] = a [m, k] b [n, k]ᵀ`` for sizes that fit L0 at once."""
    return (
        SIZES
        + nd_to_nz("a1", "aGm", "m", "k")
        + nd_to_nz("b1", "bGm", "n", "k")
        + pass_to("MTE2", "MTE1")
        + LOAD_A
        + LOAD_B
        + pass_to("MTE1", "M")
        + MMAD
        + pass_to("M", "FIX")
        + FIXPIPE.format(quant=QUANT[out])
    )


def random_values(
    random: np.random.Generator, shape: tuple[int, ...], dtype: DType
) -> NDArray[np.generic]:
    """Return values of mixed sign and magnitude that are exact in ``dtype``."""
    if dtype is DType.I8:
        return random.integers(-128, 128, shape, np.int8)
    scaled = random.standard_normal(shape) * 2.0 ** random.integers(-4, 5, shape)
    return scaled.astype(dtype.numpy)


def ordered_product(
    a: NDArray[np.generic],
    b: NDArray[np.generic],
    start: NDArray[np.generic] | None = None,
) -> NDArray[np.generic]:
    """Return ``start + a [m, k] b [n, k]ᵀ`` with one rounding per operation, k ascending."""
    wide = np.int32 if a.dtype == np.int8 else np.float32
    left, right = a.astype(wide), b.astype(wide)
    total = np.zeros((len(a), len(b)), wide) if start is None else start.astype(wide).copy()
    for i in range(a.shape[1]):
        total += left[:, i, None] * right[None, :, i]
    return total
