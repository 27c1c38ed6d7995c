"""Build a vector kernel once and launch it on NumPy arrays."""

import functools
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import SIZES_ELEMENTS, Direction, Kernel
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.step_state import Size
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel, build_kernels

Array = NDArray[np.generic]
Floats = NDArray[np.float64]

TARGET = find_target("ascend910b")

FEW_CORES = replace(TARGET, vector_cores=2)
"""Gives each core many rows, so that it works in several steps."""


@functools.cache
def build(kernel: Kernel) -> BuiltKernel:
    """Compile a kernel for the emulator."""
    return build_kernels([kernel], TARGET)[kernel.name]


def sizes(**values: int) -> Array:
    """Return the ``sizes`` tensor; slots ``rows``, ``requests``, ``context``, ``pairs``."""
    table = np.zeros(SIZES_ELEMENTS, np.int32)
    for slot, name in enumerate(("rows", "requests", "context", "pairs")):
        table[slot] = values.get(name, 0)
    return table


def launch(kernel: Kernel, inputs: dict[str, Array], rows: int) -> dict[str, Array]:
    """Build and launch; see `run`."""
    return run(build(kernel), inputs, rows)


def run(built: BuiltKernel, inputs: dict[str, Array], rows: int) -> dict[str, Array]:
    """Launch with inputs by name, padded with NaN or -1 to capacity; return outputs by name.

    Outputs start as NaN or -1 as well, so that elements nobody wrote are seen. ``row_ends`` among
    the inputs is no argument: behind how many packed rows each place ends.
    """
    tensors: list[Array] = []
    outputs: dict[str, Array] = {}
    for argument in built.kernel.arguments:
        if argument.name == "sizes":
            table = sizes(rows=rows)
            if rows and "row_ends" in inputs:
                table[Size.PACKED_ROWS] = inputs["row_ends"][rows - 1]
            tensors.append(table)
            if argument.direction is not Direction.IN:
                outputs["sizes"] = table
            continue
        fill = np.nan if argument.dtype.is_float else -1
        tensor = np.full(argument.elements, np.array(fill).astype(argument.dtype.numpy))
        if argument.name in inputs:
            given = inputs[argument.name].reshape(-1)
            tensor[: given.size] = given
        if argument.direction is not Direction.IN:
            outputs[argument.name] = tensor
        tensors.append(tensor)
    built.launch(tensors)
    return outputs


def random_array(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """Return standard normal numbers in a format."""
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype.numpy)
