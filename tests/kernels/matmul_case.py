"""Operands, launches and the error bound of matrix products."""

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import SIZES_ELEMENTS, DeviceSize
from ascendfx.codegen.ascendc.kernels.grouped_matmul import GroupedMatmulPlan
from ascendfx.codegen.ascendc.kernels.matmul import MatmulPlan
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.ir.code_pairs import unpack_pairs
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import BuiltKernel

Array = NDArray[np.generic]


@dataclass(frozen=True, slots=True)
class Operands:
    """Arguments of a launch and what the result must be, before rounding.

    Attributes:
        x: The tensor ``x`` lies in.
        w: The tensor ``W`` lies in.
        y: The tensor ``y`` lies in, filled with `unwritten`.
        expected: ``[batch, rows, n]`` in f64.
        magnitude: The same sums over absolute values.
    """

    x: Array
    w: Array
    y: Array
    expected: NDArray[np.float64]
    magnitude: NDArray[np.float64]


def random_values(shape: tuple[int, ...], dtype: DType, seed: int) -> Array:
    """Return values of mixed sign and size, exact in ``dtype``."""
    random = np.random.default_rng(seed)
    if dtype is DType.I8:
        return random.integers(-128, 128, shape).astype(np.int8)
    if dtype is DType.I4X2:
        return random.integers(0, 256, shape).astype(np.uint8)
    return (random.standard_normal(shape) * 2.0 ** random.integers(-3, 4, shape)).astype(
        dtype.numpy
    )


def numbers_of(values: Array, dtype: DType) -> NDArray[np.float64]:
    """Return what is multiplied, in float64."""
    return (unpack_pairs(values) if dtype is DType.I4X2 else values).astype(np.float64)


def unwritten(dtype: np.dtype[np.generic]) -> float | int:
    """Return what tensors hold where nothing was stored: NaN, or a number no sum reaches."""
    return np.nan if dtype.kind in "fV" else int(np.iinfo(dtype.name).min) + 5


def is_unwritten(tensor: Array) -> bool:
    """Return whether every element is as before."""
    fill = unwritten(tensor.dtype)
    return bool(np.all(np.isnan(tensor) if np.isnan(fill) else tensor == fill))


def store(view: MatrixView, matrices: Array, size: int) -> Array:
    """Return a tensor of `unwritten` that holds ``matrices [b, r, c]`` at ``view``."""
    tensor = np.full(size, unwritten(matrices.dtype), matrices.dtype)
    tensor[indices(view, matrices.shape)] = matrices
    return tensor


def indices(view: MatrixView, shape: tuple[int, ...]) -> NDArray[np.int64]:
    """Return the place of every element ``[b, r, c]``."""
    b, r, c = np.ogrid[: shape[0], : shape[1], : shape[2]]
    return view.offset + b * view.batch_stride + r * view.row_stride + c


def stored_weights(w: Array, b_layout: str) -> Array:
    """Return ``w [b, n, k]`` as the layout stores it, ``[b, rows, columns]``."""
    if b_layout == "nk":
        return w
    k0 = 32 // w.dtype.itemsize
    batch, n, k = w.shape
    padded = np.zeros((batch, -(-n // 16) * 16, -(-k // k0) * k0), w.dtype)
    padded[:, :n, :k] = w
    blocks = padded.reshape(batch, padded.shape[1], -1, k0).transpose(0, 2, 1, 3)
    return np.ascontiguousarray(blocks).reshape(batch, blocks.shape[1], -1)


def make_operands(plan: MatmulPlan, rows: int, seed: int) -> Operands:
    """Return random operands of ``rows`` actual rows."""
    product = plan.product
    x = random_values((product.batch, rows, product.k), product.dtype, seed)
    w = random_values((product.batch, product.n, product.k), product.dtype, seed + 1)
    x64, w64 = (numbers_of(each, product.dtype) for each in (x, w))
    return Operands(
        x=store(product.a, x, _size(product.a, product.rows, product.k, product.batch)),
        w=store(
            product.b,
            stored_weights(w, product.b_layout),
            _size(product.b, *product.b_shape, product.batch),
        ),
        y=np.full(
            _size(product.y, product.rows, product.n, product.batch),
            unwritten(product.out_dtype.numpy),
            product.out_dtype.numpy,
        ),
        expected=np.einsum("brk,bnk->brn", x64, w64),
        magnitude=np.einsum("brk,bnk->brn", np.abs(x64), np.abs(w64)),
    )


def _size(view: MatrixView, rows: int, columns: int, batch: int) -> int:
    return view.size(rows=rows, columns=columns, batch=batch)


def run_matmul(built: BuiltKernel, plan: MatmulPlan, rows: int, seed: int = 0) -> None:
    """Launch the kernel on random operands and assert the result."""
    operands = make_operands(plan, rows, seed)
    arguments = [operands.x, operands.w, operands.y]
    if isinstance(plan.rows, DeviceSize):
        sizes = np.zeros(SIZES_ELEMENTS, np.int32)
        assert rows % plan.each == 0
        sizes[plan.rows.slot] = rows // plan.each
        arguments.append(sizes)
    built.launch(arguments)
    shape = (plan.product.batch, rows, plan.product.n)
    places = indices(plan.product.y, shape)
    assert_within_bound(operands, operands.y[places], plan.product.k, plan.product.out_dtype)
    untouched = np.delete(operands.y, places.ravel())
    assert is_unwritten(untouched), "elements outside the view were written"


def run_grouped_matmul(
    built: BuiltKernel, plan: GroupedMatmulPlan, group_sizes: list[int], seed: int = 0
) -> None:
    """Launch the kernel on random operands and assert the result."""
    product = plan.product
    ends = np.cumsum(group_sizes, dtype=np.int32)
    rows = plan.each * int(ends[-1])
    x = random_values((1, rows, product.k), product.dtype, seed)
    w = random_values((product.batch, product.n, product.k), product.dtype, seed + 1)
    x64, w64 = (numbers_of(each, product.dtype) for each in (x[0], w))
    expert = np.repeat(np.arange(product.batch), plan.each * np.array(group_sizes))
    operands = Operands(
        x=store(product.a, x, _size(product.a, product.rows, product.k, 1)),
        w=store(
            product.b,
            stored_weights(w, product.b_layout),
            _size(product.b, *product.b_shape, product.batch),
        ),
        y=np.full(
            _size(product.y, product.rows, product.n, 1),
            unwritten(product.out_dtype.numpy),
            product.out_dtype.numpy,
        ),
        expected=np.einsum("pk,pnk->pn", x64, w64[expert])[None],
        magnitude=np.einsum("pk,pnk->pn", np.abs(x64), np.abs(w64)[expert])[None],
    )
    built.launch([operands.x, operands.w, ends, operands.y])
    places = indices(product.y, (1, rows, product.n))
    assert_within_bound(operands, operands.y[places], product.k, product.out_dtype)
    assert is_unwritten(np.delete(operands.y, places.ravel()))


def assert_within_bound(operands: Operands, actual: Array, k: int, out_dtype: DType) -> None:
    """Assert the a-priori bound of a sum of k rounded products, added in any order.

    ``|error| <= g |x| |w| + u (|y| + g |x| |w|)`` with ``g = (k + 1) u32 / (1 - (k + 1) u32)``
    and u the unit roundoff of the stored result (0 if it is f32, which is not rounded again).
    Sums of integers are exact.
    Source: Higham, Accuracy and Stability of Numerical Algorithms, section 3.1.
    """
    u32 = 0.0 if out_dtype is DType.I32 else DType.F32.unit_roundoff
    bound = (k + 1) * u32 / (1 - (k + 1) * u32) * operands.magnitude
    if out_dtype is not DType.F32:  # an integer has no unit roundoff
        bound += out_dtype.unit_roundoff * (np.abs(operands.expected) + bound)
    error = np.abs(actual.astype(np.float64) - operands.expected)
    worst = np.nanmax(np.divide(error, bound, where=bound > 0, out=np.zeros_like(error)), initial=0)
    assert np.all(error <= bound), f"error up to {worst:.3g} of the bound, or NaN"
