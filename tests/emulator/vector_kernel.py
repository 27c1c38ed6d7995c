"""Kernels written for a test: a body, arrays in, arrays out."""

import functools
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument, KernelKind
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, Checks, build_kernels

CPP_TYPES = {
    DType.F32: "float",
    DType.F16: "half",
    DType.BF16: "bfloat16_t",
    DType.I64: "int64_t",
    DType.I32: "int32_t",
    DType.I8: "int8_t",
}


def source(dtype: DType, name: str, elements: int) -> KernelArgument:
    return KernelArgument(name, dtype, Direction.IN, elements)


def result(dtype: DType, name: str, elements: int) -> KernelArgument:
    return KernelArgument(name, dtype, Direction.OUT, elements)


def make_kernel(
    name: str,
    body: str,
    arguments: Sequence[KernelArgument],
    *,
    kind: KernelKind = KernelKind.VECTOR,
    blocks: int = 1,
    before: str = "",
) -> Kernel:
    """Return a kernel whose body sees a ``GlobalTensor`` called ``<name>Gm`` per argument."""
    parameters = ", ".join(f"GM_ADDR {each.name}_" for each in arguments)
    lines = ['#include "kernel_operator.h"', "using namespace AscendC;", *before.splitlines()]
    lines.append(f'extern "C" __global__ __aicore__ void {name}({parameters}) {{')
    lines.append(f"KERNEL_TASK_TYPE_DEFAULT({kind.value});")
    for each in arguments:
        cpp = CPP_TYPES[each.dtype]
        lines.append(f"GlobalTensor<{cpp}> {each.name}Gm;")
        lines.append(
            f"{each.name}Gm.SetGlobalBuffer((__gm__ {cpp}*){each.name}_, {each.elements});"
        )
    lines += [*body.strip().splitlines(), "}", ""]
    return Kernel(name, "test", kind, blocks, tuple(arguments), "\n".join(lines))


@functools.cache
def build(kernel: Kernel, checks: Checks | None = None) -> BuiltKernel:
    return build_kernels([kernel], find_target("ascend910b2"), checks=checks)[kernel.name]


def run(
    kernel: Kernel, *inputs: NDArray[np.generic], blocks: int | None = None
) -> list[NDArray[np.generic]]:
    """Launch ``kernel`` on ``inputs`` and return its outputs, which start as zeros."""
    outputs = [
        np.zeros(each.elements, each.dtype.numpy)
        for each in kernel.arguments
        if each.direction is Direction.OUT
    ]
    build(kernel).launch([*inputs, *outputs], blocks=blocks)
    return outputs
