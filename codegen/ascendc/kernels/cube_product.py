"""One matrix product as the cube families see it, and what the copy engines refuse."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.hardware_units import (
    FRACTAL_ROW_BYTES,
    FRACTAL_ROWS,
    MAX_ROW_STRIDE,
    round_up,
)
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_RESULTS = {
    DType.F32: (DType.F32,),
    DType.BF16: (DType.F32, DType.BF16),
    DType.I8: (DType.I32,),
    DType.I4X2: (DType.I32,),
}
_SUMS = {
    DType.F32: DType.F32,
    DType.BF16: DType.F32,
    DType.I8: DType.I32,
    DType.I4X2: DType.I32,
}


CODES = (DType.I8, DType.I4X2)
"""Formats of whole numbers, whose sums are exact."""


@dataclass(frozen=True, slots=True)
class CubeProduct:
    """``y[b] = x[b] · W[b]ᵀ`` for ``batch`` matrices, or one matrix per expert.

    Attributes:
        rows: Largest number of rows of ``x`` and ``y``.
        n: Columns of ``y``.
        k: Terms of a sum, of ``i4x2`` pairs of terms.
        batch: Matrices ``W``.
        dtype: Element format of ``x`` and ``W``.
        out_dtype: Element format of ``y``.
        b_layout: How one ``W`` is stored: ``nk`` is ``[n, k]`` (torch), ``nz`` is
            ``[ceil(k / k0), ceil16(n), k0]`` with k0 elements in 32 bytes, padding 0.
        a: View of ``x``.
        b: View of ``W``; its row stride is not used with ``nz``.
        y: View of the result.
    """

    rows: int
    n: int
    k: int
    batch: int
    dtype: DType
    out_dtype: DType
    b_layout: str
    a: MatrixView
    b: MatrixView
    y: MatrixView

    @property
    def k0(self) -> int:
        """Elements in the 32 bytes of a fractal row."""
        return FRACTAL_ROW_BYTES // self.dtype.bytes

    @property
    def sum_dtype(self) -> DType:
        """Format of the sums in L0C: i32, which is exact, for codes, else f32."""
        return _SUMS[self.dtype]

    @property
    def k_granule(self) -> int:
        """What a k step is a multiple of: whole fractal rows, and 16 in any case."""
        return max(FRACTAL_ROWS, self.k0)

    @property
    def b_shape(self) -> tuple[int, int]:
        """Rows and columns of one ``W`` as stored."""
        return _stored_shape(self.n, self.k, self.k0, self.b_layout)


def blocks_in_one_copy(product: CubeProduct) -> bool:
    """Return whether the gap between two k blocks of a packed weight fits its 16 bits."""
    return round_up(product.n, FRACTAL_ROWS) - FRACTAL_ROWS <= MAX_ROW_STRIDE


def default_result(dtype: DType) -> DType:
    """Return the format a product of ``dtype`` has if nobody asks for another."""
    return DType.I32 if dtype in CODES else dtype


def default_b_view(n: int, k: int, dtype: DType, b_layout: str, batch: int) -> MatrixView:
    """Return the view of a tensor that holds nothing but the ``batch`` matrices ``W``.

    Raises:
        GraphError: Nobody knows the layout.
    """
    rows, columns = _stored_shape(n, k, FRACTAL_ROW_BYTES // dtype.bytes, b_layout)
    return MatrixView(0, columns, rows * columns, batch * rows * columns)


def check_product(family: str, product: CubeProduct, *, result_batch: int) -> None:
    """Refuse what the engines cannot do.

    Args:
        family: Subject of the message.
        product: What is asked for.
        result_batch: Matrices ``x`` and ``y``: ``batch``, or 1 if experts share them.

    Raises:
        GraphError: An empty axis, a format without an instruction, a row stride beyond 16 bits, a
            view outside its tensor, or result rows that overlap.
    """
    _check_shape(family, product)
    strided = [("x", product.a.row_stride)]
    if product.b_layout != "nz":
        strided.append(("W", product.b.row_stride))
    for name, stride in strided:
        if not 1 <= stride <= MAX_ROW_STRIDE:
            raise GraphError(
                code="row-stride-too-long",
                reason=f"{family}: rows of {name} are {stride:,} elements apart; "
                f"the copy to L1 takes 1 to {MAX_ROW_STRIDE:,}",
                hint="store the weight as `nz`, or split the inner axis",
            )
    y_shape = {"rows": product.rows, "columns": product.n, "batch": result_batch}
    if product.y.overlaps(**y_shape):
        raise GraphError(
            code="result-rows-overlap",
            reason=f"{family}: rows of {product.n:,} elements overlap in y: row stride "
            f"{product.y.row_stride:,}, batch stride {product.y.batch_stride:,}",
            hint="a row stride must be at least the row length",
        )
    b_rows, b_columns = product.b_shape
    _check_inside(family, "x", product.a, (product.rows, product.k, result_batch))
    _check_inside(family, "W", product.b, (b_rows, b_columns, product.batch))
    _check_inside(family, "y", product.y, (product.rows, product.n, result_batch))


def _check_shape(family: str, product: CubeProduct) -> None:
    sizes = {"rows": product.rows, "n": product.n, "k": product.k, "batch": product.batch}
    for name, size in sizes.items():
        if size < 1:
            raise GraphError(
                code="empty-axis",
                reason=f"{family}: {name} is {size}",
                hint="every size must be at least 1",
            )
    results = _RESULTS.get(product.dtype, ())
    if product.out_dtype not in results:
        raise GraphError(
            code="no-cube-format",
            reason=f"{family}: no instruction multiplies {product.dtype.value} by "
            f"{product.dtype.value} to {product.out_dtype.value}",
            hint="supported: f32 to f32, bf16 to f32 or bf16, i8 and i4x2 to i32",
        )


def _stored_shape(n: int, k: int, k0: int, b_layout: str) -> tuple[int, int]:
    match b_layout:
        case "nk":
            return n, k
        case "nz":
            return round_up(k, k0) // k0, round_up(n, FRACTAL_ROWS) * k0
        case _:
            raise GraphError(
                code="unknown-layout",
                reason=f"no weight layout is called `{b_layout}`",
                hint="known layouts: nk, nz",
            )


def _check_inside(family: str, name: str, view: MatrixView, shape: tuple[int, int, int]) -> None:
    rows, columns, batch = shape
    extent = view.extent(rows=rows, columns=columns, batch=batch)
    if view.elements is not None and extent > view.elements:
        raise GraphError(
            code="view-outside-tensor",
            reason=f"{family}: the view of {name} ends at element {extent:,}, "
            f"the tensor has {view.elements:,}",
            hint="make the view smaller, or the tensor larger",
        )
