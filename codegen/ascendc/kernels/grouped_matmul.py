"""``y[p, :] = x[p, :] · W[e(p)]ᵀ`` for rows sorted by expert; groups are read on the device."""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument, KernelKind
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
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_FAMILY = "grouped-matmul"


@dataclass(frozen=True, slots=True)
class GroupedMatmulPlan:
    """How the products of all experts are cut.

    Attributes:
        each: Rows of ``x`` for each pair (token, expert).
        product: Shapes, formats and views; ``rows`` is the capacity of rows of all pairs,
            ``batch`` the number of experts.
        tile: Tile sizes.
        memory: Local bytes of a tile.
        blocks: Cube cores in use; the tiles of all experts are dealt out in turn.
    """

    each: int
    product: CubeProduct
    tile: CubeTile
    memory: CubeMemory
    blocks: int


def plan_grouped_matmul(
    *,
    pairs: int,
    experts: int,
    n: int,
    k: int,
    dtype: DType,
    target: Target,
    out_dtype: DType | None = None,
    b_layout: str = "nk",
    a: MatrixView | None = None,
    b: MatrixView | None = None,
    y: MatrixView | None = None,
    tile: CubeTile | None = None,
    each: int = 1,
) -> GroupedMatmulPlan:
    """Choose the cut of one product per expert for ``target``.

    Args:
        pairs: Largest number of pairs (token, expert), all experts together.
        experts: Matrices ``W``.
        n: Columns of ``y``.
        k: Terms of a sum.
        dtype: Element format of ``x`` and ``W``: f32, bf16, i8 or i4x2.
        target: The chip.
        out_dtype: Element format of ``y``; by default that of ``x``, i32 for codes.
        b_layout: ``nk`` or ``nz``, see `CubeProduct`.
        a: Where ``x`` lies; by default dense ``[each * pairs, k]``.
        b: Where ``W`` lies; by default dense, one matrix per expert.
        y: Where ``y`` lies; by default dense ``[each * pairs, n]``.
        tile: Tile sizes instead of the modelled best.
        each: Rows of ``x`` for each pair.

    Raises:
        GraphError: The engines cannot do it, see `check_product` and `check_tile`.
    """
    rows = each * pairs
    product = CubeProduct(
        rows=rows,
        n=n,
        k=k,
        batch=experts,
        dtype=dtype,
        out_dtype=out_dtype or default_result(dtype),
        b_layout=b_layout,
        a=a or dense(rows, k),
        b=b or default_b_view(n, k, dtype, b_layout, experts),
        y=y or dense(rows, n),
    )
    check_product(_FAMILY, product, result_batch=1)
    chosen = tile or choose_tile(_average_load(product, pairs), target, x_may_stay=False)
    if chosen.x_stays:
        raise GraphError(
            code="tile-shape",
            reason=f"{_FAMILY}: x cannot stay in L1: every expert has its rows",
            hint="leave `tile` out to have one chosen",
        )
    check_tile(_FAMILY, product, chosen, target)
    memory = tile_memory(product, chosen, target)
    return GroupedMatmulPlan(each, product, chosen, memory, target.cube_cores)


def emit_grouped_matmul(plan: GroupedMatmulPlan, name: str) -> Kernel:
    """Return the kernel; arguments ``x, w, group_ends, y``.

    ``group_ends`` holds for every expert the number of pairs of all experts up to it.
    """
    x, w, ends, y = arguments = _arguments(plan)
    code = TileCode(plan.product, plan.tile, plan.memory, (x.elements, w.elements, y.elements))
    out = CppWriter()
    _write_head(out, plan, name, code)
    write_tile_code(out, code)
    out.line()
    with kernel_entry(out, name, KernelKind.CUBE, arguments):
        _write_walk(out, plan, ends)
    return Kernel(name, _FAMILY, KernelKind.CUBE, plan.blocks, arguments, out.text())


def _average_load(product: CubeProduct, pairs: int) -> CubeProduct:
    """Return the batched product that stands for evenly spread pairs when tiles are compared."""
    active = min(product.batch, pairs)
    return CubeProduct(
        rows=-(-product.rows // active),
        n=product.n,
        k=product.k,
        batch=active,
        dtype=product.dtype,
        out_dtype=product.out_dtype,
        b_layout=product.b_layout,
        a=product.a,
        b=product.b,
        y=product.y,
    )


def _arguments(
    plan: GroupedMatmulPlan,
) -> tuple[KernelArgument, KernelArgument, KernelArgument, KernelArgument]:
    product = plan.product
    b_rows, b_columns = product.b_shape
    x = product.a.size(rows=product.rows, columns=product.k)
    w = product.b.size(rows=b_rows, columns=b_columns, batch=product.batch)
    y = product.y.size(rows=product.rows, columns=product.n)
    return (
        KernelArgument("x", product.dtype, Direction.IN, x),
        KernelArgument("w", product.dtype, Direction.IN, w),
        KernelArgument("group_ends", DType.I32, Direction.IN, product.batch),
        KernelArgument("y", product.out_dtype, Direction.OUT, y),
    )


def _write_head(out: CppWriter, plan: GroupedMatmulPlan, name: str, code: TileCode) -> None:
    product = plan.product
    out.lines(
        (
            f"// {name}: y[p, :] = x[p, :] * W[e]^T for rows p of expert e.",
            f"// {product.batch} experts, at most {product.rows:,} rows, n {product.n:,}, "
            f"k {product.k:,}; {product.dtype.value} to {product.out_dtype.value}.",
            f"// Sums in {product.sum_dtype.value}; W stored as {product.b_layout}.",
            *plan_comment(code),
            f"// Split: the tiles [e, m, n] (n fastest) of all experts are dealt to {plan.blocks} "
            "blocks in turn.",
            '#include "kernel_operator.h"',
            "using namespace AscendC;",
            "",
        )
    )


def _write_walk(out: CppWriter, plan: GroupedMatmulPlan, ends: KernelArgument) -> None:
    product = plan.product
    a, b, y = product.a, product.b, product.y
    out.line("GlobalTensor<int32_t> endsGm;")
    out.line(f"endsGm.SetGlobalBuffer((__gm__ int32_t*){ends.name}, {ends.elements});")
    out.line("TPipe pipe;")
    out.line("CubeTile cube;")
    out.line("cube.Init(pipe, x, w, y);")
    out.line("uint64_t n = GetBlockIdx() * TILE_N;  // next column of this block, counted on")
    out.line("const uint64_t nEnd = (N + TILE_N - 1) / TILE_N * TILE_N;  // over row tiles")
    out.line("uint64_t begin = 0;")
    with out.block(f"for (uint64_t e = 0; e < {product.batch}; ++e)"):
        times = f"{plan.each} * " if plan.each > 1 else ""
        out.line(f"const uint64_t end = {times}endsGm.GetValue(e);")
        with out.block("for (uint64_t m = begin; m < end; m += TILE_M)"):
            with out.block(f"for (; n < N; n += {plan.blocks} * TILE_N)"):
                out.line(f"const uint64_t wFrom = {_from(b.offset)}e * {b.batch_stride} + n * W_N;")
                out.line(f"const uint64_t yTo = {_from(y.offset)}m * Y_ROW + n;")
                out.line("cube.rows = Smaller(TILE_M, end - m);")
                out.line("cube.columns = Smaller(TILE_N, N - n);")
                out.line(f"cube.Run({_from(a.offset)}m * X_ROW, wFrom, yTo);")
            out.line("n -= nEnd;")
        out.line("begin = end;")


def _from(offset: int) -> str:
    return f"{offset} + " if offset else ""
