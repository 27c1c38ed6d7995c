"""``y[b, r, :] = x[b, r, :] · W[b]ᵀ`` on the cube units; the row count is read on the device."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernel import (
    SIZES_ELEMENTS,
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.cube_product import (
    CubeProduct,
    check_product,
    default_b_view,
    default_result,
)
from ascendfx.codegen.ascendc.kernels.cube_tile_code import (
    TileCode,
    plan_comment,
    write_tile_code,
)
from ascendfx.codegen.ascendc.kernels.cube_tile_plan import (
    CubeMemory,
    CubeTile,
    check_tile,
    choose_tile,
    tile_memory,
)
from ascendfx.codegen.ascendc.kernels.kernel_entry import kernel_entry
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView, dense
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType

_FAMILY = "matmul"


@dataclass(frozen=True, slots=True)
class MatmulPlan:
    """How one matrix product is cut.

    Attributes:
        rows: What is counted; a `DeviceSize` is read when the kernel starts.
        each: Rows of ``x`` for each of them.
        product: Shapes, formats, layout and views.
        tile: Tile sizes.
        memory: Local bytes of a tile.
        blocks: Cube cores in use; tile t goes to block t mod blocks, n varies fastest.
    """

    rows: DeviceSize | int
    each: int
    product: CubeProduct
    tile: CubeTile
    memory: CubeMemory
    blocks: int


def plan_matmul(
    *,
    rows: DeviceSize | int,
    n: int,
    k: int,
    dtype: DType,
    target: Target,
    out_dtype: DType | None = None,
    batch: int = 1,
    b_layout: str = "nk",
    a: MatrixView | None = None,
    b: MatrixView | None = None,
    y: MatrixView | None = None,
    tile: CubeTile | None = None,
    each: int = 1,
) -> MatmulPlan:
    """Choose the cut of ``y[b] = x[b] · W[b]ᵀ`` for ``target``.

    Args:
        rows: Rows of every ``x[b]``, or what has ``each`` rows; zero is allowed on the device.
        n: Columns of ``y``.
        k: Terms of a sum.
        dtype: Element format of ``x`` and ``W``: f32, bf16, i8 or i4x2.
        target: The chip.
        out_dtype: Element format of ``y``; by default that of ``x``, i32 for codes.
        batch: Independent products.
        b_layout: ``nk`` or ``nz``, see `CubeProduct`.
        a: Where ``x`` lies; by default dense ``[batch, rows, k]``.
        b: Where ``W`` lies; by default dense.
        y: Where ``y`` lies; by default dense ``[batch, rows, n]``.
        tile: Tile sizes instead of the modelled best.
        each: Rows of ``x[b]`` for each of ``rows``.

    Raises:
        GraphError: The engines cannot do it, see `check_product` and `check_tile`.
    """
    capacity = each * (rows.capacity if isinstance(rows, DeviceSize) else rows)
    product = CubeProduct(
        rows=capacity,
        n=n,
        k=k,
        batch=batch,
        dtype=dtype,
        out_dtype=out_dtype or default_result(dtype),
        b_layout=b_layout,
        a=a or dense(capacity, k, batch=batch),
        b=b or default_b_view(n, k, dtype, b_layout, batch),
        y=y or dense(capacity, n, batch=batch),
    )
    check_product(_FAMILY, product, result_batch=batch)
    chosen = tile or choose_tile(product, target, x_may_stay=True)
    check_tile(_FAMILY, product, chosen, target)
    tiles = batch * -(-capacity // chosen.m) * -(-n // chosen.n)
    memory = tile_memory(product, chosen, target)
    return MatmulPlan(rows, each, product, chosen, memory, min(tiles, target.cube_cores))


def emit_matmul(plan: MatmulPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``x, w, y`` and, with device rows, ``sizes``."""
    arguments = _arguments(plan)
    code = TileCode(
        plan.product,
        plan.tile,
        plan.memory,
        (arguments[0].elements, arguments[1].elements, arguments[2].elements),
    )
    out = CppWriter()
    _write_head(out, plan, name, code)
    write_tile_code(out, code)
    out.line()
    with kernel_entry(out, name, KernelKind.CUBE, arguments):
        _write_walk(out, plan)
    return Kernel(name, _FAMILY, KernelKind.CUBE, plan.blocks, arguments, out.text())


def _arguments(plan: MatmulPlan) -> tuple[KernelArgument, ...]:
    product = plan.product
    b_rows, b_columns = product.b_shape
    batch = product.batch
    x = product.a.size(rows=product.rows, columns=product.k, batch=batch)
    w = product.b.size(rows=b_rows, columns=b_columns, batch=batch)
    y = product.y.size(rows=product.rows, columns=product.n, batch=batch)
    arguments = (
        KernelArgument("x", product.dtype, Direction.IN, x),
        KernelArgument("w", product.dtype, Direction.IN, w),
        KernelArgument("y", product.out_dtype, Direction.OUT, y),
    )
    if isinstance(plan.rows, DeviceSize):
        sizes = KernelArgument("sizes", DType.I32, Direction.IN, SIZES_ELEMENTS)
        return (*arguments, sizes)
    return arguments


def _write_head(out: CppWriter, plan: MatmulPlan, name: str, code: TileCode) -> None:
    product = plan.product
    times = f"{plan.each} * " if plan.each > 1 else ""
    rows = (
        f"rows = {times}sizes[{plan.rows.slot}] <= {product.rows:,}"
        if isinstance(plan.rows, DeviceSize)
        else f"rows {product.rows:,}"
    )
    out.lines(
        (
            f"// {name}: y[b, r, :] = x[b, r, :] * W[b]^T.",
            f"// Batch {product.batch}, {rows}, n {product.n:,}, k {product.k:,}; "
            f"{product.dtype.value} to {product.out_dtype.value}.",
            f"// Sums in {product.sum_dtype.value}; W stored as {product.b_layout}.",
            *plan_comment(code),
            f"// Split: tile t of [b, m, n] (n fastest) goes to block t % {plan.blocks}.",
            '#include "kernel_operator.h"',
            "using namespace AscendC;",
            "",
        )
    )


def _write_walk(out: CppWriter, plan: MatmulPlan) -> None:
    if isinstance(plan.rows, DeviceSize):
        out.line("GlobalTensor<int32_t> sizesGm;")
        out.line(f"sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, {SIZES_ELEMENTS});")
        times = f"{plan.each} * " if plan.each > 1 else ""
        out.line(f"const uint32_t rows = {times}sizesGm.GetValue({plan.rows.slot});")
    else:
        out.line(f"const uint32_t rows = {plan.product.rows};")
    out.line("const uint32_t nTiles = (N + TILE_N - 1) / TILE_N;")
    out.line("const uint32_t mTiles = (rows + TILE_M - 1) / TILE_M;")
    batch = "" if plan.product.batch == 1 else f"{plan.product.batch} * "
    out.line(f"const uint32_t tiles = {batch}mTiles * nTiles;")
    out.line("const uint32_t block = GetBlockIdx();")
    with out.block("if (block >= tiles)"):
        out.line("return;")
    out.line("TPipe pipe;")
    out.line("CubeTile cube;")
    out.line("cube.Init(pipe, x, w, y);")
    if plan.tile.x_stays:
        _write_kept_x(out, plan)
    with out.block(f"for (uint32_t t = block; t < tiles; t += {plan.blocks})"):
        _write_one_tile(out, plan)
    if plan.tile.x_stays:
        out.line("cube.xL1.FreeTensor(kept);")


def _write_kept_x(out: CppWriter, plan: MatmulPlan) -> None:
    out.line("cube.rows = rows;")
    out.line(f"cube.CopyX({plan.product.a.offset}, K);")
    out.line("LocalTensor<In> kept = cube.xL1.DeQue<In>();")


def _write_one_tile(out: CppWriter, plan: MatmulPlan) -> None:
    product = plan.product
    out.line("const uint64_t n = t % nTiles * TILE_N;")
    out.line("const uint64_t m = t / nTiles % mTiles * TILE_M;")
    if product.batch > 1:
        out.line("const uint64_t b = t / nTiles / mTiles;")
    x = _offset(product.a, product.batch, "m * X_ROW")
    w = _offset(product.b, product.batch, "n * W_N")
    y = _offset(product.y, product.batch, "m * Y_ROW + n")
    out.line("cube.rows = Smaller(TILE_M, rows - m);")
    out.line("cube.columns = Smaller(TILE_N, N - n);")
    out.line(f"cube.Run({'kept' if plan.tile.x_stays else x}, {w}, {y});")


def _offset(view: MatrixView, batch: int, inside: str) -> str:
    """Return the C++ offset of one tile: view offset, matrix, place inside the matrix."""
    terms = [str(view.offset)] if view.offset else []
    if batch > 1:
        terms.append(f"b * {view.batch_stride}")
    return " + ".join((*terms, inside))
