"""Run a kernel over the places of a step and compare it with its operation."""

import numpy as np

from ascendfx.codegen.ascendc.kernel import Direction, Kernel
from tests.kernels.vector_case import Array, build, sizes

_GUARD = -77
"""What stands in elements that no one may write."""


def run(kernel: Kernel, arrays: list[Array], counts: dict[str, int]) -> list[Array]:
    """Launch with arrays in the order of the arguments; return what is written, guards included."""
    given_arrays = iter(arrays)
    tensors: list[Array] = []
    for argument in kernel.arguments[:-1]:
        tensor = np.full(argument.elements, _GUARD, argument.dtype.numpy)
        if argument.direction is not Direction.OUT:
            array = next(given_arrays).reshape(-1)
            tensor[: array.size] = array
        tensors.append(tensor)
    build(kernel).launch([*tensors, sizes(**counts)])
    written = zip(kernel.arguments[:-1], tensors, strict=True)
    return [tensor for argument, tensor in written if argument.direction is not Direction.IN]


def check(found: list[Array], wanted: tuple[Array, ...]) -> None:
    for tensor, expected in zip(found, wanted, strict=True):
        np.testing.assert_array_equal(tensor[: expected.size], expected.reshape(-1))
        assert (tensor[expected.size :] == _GUARD).all()
