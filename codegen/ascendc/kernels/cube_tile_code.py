"""The text of one cube tile: ``struct CubeTile`` with the copies, the product and the result.

Layouts, outer to inner index (asc-devkit, matrix layouts): a matrix ``[rows, k]`` lies in L1 as
``[k / K0, rows / 16, 16, K0]`` (Nz), in L0A as ``[rows / 16, k / K0, 16, K0]`` (Zz); ``W`` lies in
L0B as ``[k / K0, n / 16, 16, K0]`` (Zn), which is the order it has in L1 already.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import FRACTAL_ROWS, round_up
from ascendfx.codegen.ascendc.kernels.cube_product import CODES, CubeProduct, blocks_in_one_copy
from ascendfx.codegen.ascendc.kernels.cube_tile_plan import CubeMemory, CubeTile
from ascendfx.ir.tensor_type import DType

_CPP_TYPE = {
    DType.F32: "float",
    DType.BF16: "bfloat16_t",
    DType.I8: "int8_t",
    DType.I4X2: "int8_t",  # copies and loads move bytes
    DType.I32: "int32_t",
}
_QUANT_MODE = {DType.F32: "NoQuant", DType.BF16: "F322BF16", DType.I32: "NoQuant"}


@dataclass(frozen=True, slots=True)
class TileCode:
    """What the text of a tile depends on.

    Attributes:
        product: Shapes, formats and views.
        tile: Tile sizes.
        memory: Local bytes of the tile.
        elements: Elements of the tensors ``x``, ``W`` and ``y``.
    """

    product: CubeProduct
    tile: CubeTile
    memory: CubeMemory
    elements: tuple[int, int, int]


def _w_strides(product: CubeProduct) -> tuple[int, int]:
    """Return the elements from one column n to the next and from one term k to the next.

    Along k the second number holds for whole fractals only when the layout is ``nz``.
    """
    if product.b_layout == "nk":
        return product.b.row_stride, 1
    return product.k0, round_up(product.n, FRACTAL_ROWS)


def plan_comment(code: TileCode) -> tuple[str, ...]:
    """Return the comment lines that say how a tile is computed."""
    tile, memory = code.tile, code.memory
    x = "x stays in L1" if tile.x_stays else "x and W stream"
    return (
        f"// Tile: {tile.m} x {tile.n} outputs, k in steps of {tile.l1_k} (L1) and {tile.l0_k} "
        f"(L0), double buffered; {x}.",
        f"// Local bytes: L1 {memory.l1:,}, L0A {memory.l0a:,}, L0B {memory.l0b:,}, "
        f"L0C {memory.l0c:,}.",
    )


def write_tile_code(out: CppWriter, code: TileCode) -> None:
    """Write the constants, two small functions and ``struct CubeTile``."""
    _write_constants(out, code)
    out.line()
    with out.block("__aicore__ inline uint32_t Pad16(uint32_t size)"):
        out.line("return (size + 15) / 16 * 16;")
    out.line()
    with out.block("__aicore__ inline uint32_t Smaller(uint32_t a, uint32_t b)"):
        out.line("return a < b ? a : b;")
    out.line()
    with out.block("struct CubeTile", close="};"):
        _write_members(out)
        out.line()
        _write_init(out, code)
        out.line()
        _write_copy_x(out)
        out.line()
        _write_copy_w(out, code.product)
        out.line()
        _write_load_x(out)
        out.line()
        _write_load_w(out)
        out.line()
        _write_multiply(out, code.product)
        out.line()
        _write_store(out, code.product)
        out.line()
        _write_run(out, code)


def _write_constants(out: CppWriter, code: TileCode) -> None:
    product, tile = code.product, code.tile
    w_n, w_k = _w_strides(product)
    if product.dtype is DType.I4X2:
        out.line("// Four-bit codes, two in a byte: terms are bytes, which Mmad alone takes apart.")
    out.line(f"using In = {_CPP_TYPE[product.dtype]};")
    out.line(f"using Out = {_CPP_TYPE[product.out_dtype]};")
    for name, value in (
        ("N", product.n),
        ("K", product.k),
        ("K0", product.k0),
        ("TILE_M", tile.m),
        ("TILE_N", tile.n),
        ("L1_K", tile.l1_k),
        ("L0_K", tile.l0_k),
    ):
        out.line(f"constexpr uint32_t {name} = {value};")
    out.line("// Elements from one row (X_ROW, Y_ROW), column (W_N) or term (W_K) to the next.")
    out.line(f"constexpr uint64_t X_ROW = {product.a.row_stride};")
    out.line(f"constexpr uint64_t W_N = {w_n};")
    out.line(f"constexpr uint64_t W_K = {w_k};")
    out.line(f"constexpr uint64_t Y_ROW = {product.y.row_stride};")


def _write_members(out: CppWriter) -> None:
    for position, name in (
        ("A1", "xL1"),
        ("B1", "wL1"),
        ("A2", "xL0"),
        ("B2", "wL0"),
        ("CO1", "yL0"),
    ):
        out.line(f"TQue<TPosition::{position}, 1> {name};")
    for kind, name in (("In", "xGm"), ("In", "wGm"), ("Out", "yGm")):
        out.line(f"GlobalTensor<{kind}> {name};")
    out.line("uint32_t rows;  // of this tile")
    out.line("uint32_t columns;")


def _write_init(out: CppWriter, code: TileCode) -> None:
    with out.block("__aicore__ inline void Init(TPipe& pipe, GM_ADDR x, GM_ADDR w, GM_ADDR y)"):
        kinds = ("In", "In", "Out")
        for kind, name, elements in zip(kinds, "xwy", code.elements, strict=True):
            out.line(f"{name}Gm.SetGlobalBuffer((__gm__ {kind}*){name}, {elements});")
        sums = _CPP_TYPE[code.product.sum_dtype]
        x_buffers, x_k = (1, "((K + K0 - 1) / K0 * K0)") if code.tile.x_stays else (2, "L1_K")
        for name, buffers, size in (
            ("xL1", x_buffers, f"TILE_M * {x_k} * sizeof(In)"),
            ("wL1", 2, "TILE_N * L1_K * sizeof(In)"),
            ("xL0", 2, "TILE_M * L0_K * sizeof(In)"),
            ("wL0", 2, "TILE_N * L0_K * sizeof(In)"),
            ("yL0", code.memory.l0c_buffers, f"TILE_M * TILE_N * sizeof({sums})"),
        ):
            out.line(f"pipe.InitBuffer({name}, {buffers}, {size});")


def _write_copy_x(out: CppWriter) -> None:
    out.line("// Terms of x to L1. A single row is stored twice: Mmad takes m = 1 for a vector.")
    with out.block("__aicore__ inline void CopyX(uint64_t from, uint32_t terms)"):
        out.line("LocalTensor<In> x = xL1.AllocTensor<In>();")
        out.line("Nd2NzParams p;")
        _write_fields(
            out,
            ndNum="rows == 1 ? 2 : 1",
            nValue="rows",
            dValue="terms",
            srcNdMatrixStride="0",
            srcDValue="X_ROW",
            dstNzC0Stride="Pad16(rows)",
            dstNzNStride="1",
            dstNzMatrixStride="K0",
        )
        out.line("DataCopy(x, xGm[from], p);")
        out.line("xL1.EnQue(x);")


def _write_copy_w(out: CppWriter, product: CubeProduct) -> None:
    out.line("// Terms of W to L1.")
    with out.block("__aicore__ inline void CopyW(uint64_t from, uint32_t terms)"):
        out.line("LocalTensor<In> w = wL1.AllocTensor<In>();")
        if product.b_layout == "nk":
            _write_copy_w_rows(out)
        else:
            _write_copy_w_packed(out, product)
        out.line("wL1.EnQue(w);")


def _write_copy_w_rows(out: CppWriter) -> None:
    out.line("Nd2NzParams p;")
    _write_fields(
        out,
        ndNum="1",
        nValue="columns",
        dValue="terms",
        srcNdMatrixStride="0",
        srcDValue="W_N",
        dstNzC0Stride="Pad16(columns)",
        dstNzNStride="1",
        dstNzMatrixStride="0",
    )
    out.line("DataCopy(w, wGm[from], p);")


def _write_copy_w_packed(out: CppWriter, product: CubeProduct) -> None:
    if not blocks_in_one_copy(product):
        with out.block("for (uint32_t k = 0; k < terms; k += K0)"):
            out.line("DataCopy(w[k * Pad16(columns)], wGm[from + k * W_K], Pad16(columns) * K0);")
        return
    out.line("DataCopyParams p;")
    _write_fields(
        out,
        blockCount="(terms + K0 - 1) / K0",
        blockLen="Pad16(columns)",
        srcStride="W_K - Pad16(columns)",
        dstStride="0",
    )
    out.line("DataCopy(w, wGm[from], p);")


def _write_load_x(out: CppWriter) -> None:
    out.line("// Terms from k on of x in L1 to L0A, 16 rows at a time.")
    with out.block(
        "__aicore__ inline void LoadX(const LocalTensor<In>& x, uint32_t k, uint32_t terms)"
    ):
        out.line("LocalTensor<In> a = xL0.AllocTensor<In>();")
        out.line("const uint32_t fractals = (terms + K0 - 1) / K0;")
        out.line("LoadData2DParams p;")
        _write_fields(out, repeatTimes="fractals", srcStride="Pad16(rows) / 16")
        with out.block("for (uint32_t row = 0; row < rows; row += 16)"):
            out.line("LoadData(a[row * fractals * K0], x[k * Pad16(rows) + row * K0], p);")
        out.line("xL0.EnQue(a);")


def _write_load_w(out: CppWriter) -> None:
    out.line("// Terms from k on of W in L1 to L0B.")
    with out.block(
        "__aicore__ inline void LoadW(const LocalTensor<In>& w, uint32_t k, uint32_t terms)"
    ):
        out.line("LocalTensor<In> b = wL0.AllocTensor<In>();")
        out.line("LoadData2DParams p;")
        repeats = "(terms + K0 - 1) / K0 * (Pad16(columns) / 16)"
        _write_fields(out, repeatTimes=repeats, srcStride="1")
        out.line("LoadData(b, w[k * Pad16(columns)], p);")
        out.line("wL0.EnQue(b);")


def _write_multiply(out: CppWriter, product: CubeProduct) -> None:
    sums = _CPP_TYPE[product.sum_dtype]
    out.line("// y += x * W over the terms in L0; small products need the barrier (Mmad page).")
    pairs = product.dtype is DType.I4X2
    codes = ".ReinterpretCast<int4b_t>()" if pairs else ""
    with out.block(
        f"__aicore__ inline void Multiply(const LocalTensor<{sums}>& y, uint32_t terms, bool first)"
    ):
        out.line("LocalTensor<In> a = xL0.DeQue<In>();")
        out.line("LocalTensor<In> b = wL0.DeQue<In>();")
        out.line("MmadParams p;")
        _write_fields(
            out,
            m="rows == 1 ? 2 : rows",
            n="columns",
            k="2 * terms" if pairs else "terms",
            cmatrixInitVal="first",
        )
        out.line(f"Mmad(y, a{codes}, b{codes}, p);")
        with out.block("if ((rows / 16) * (columns / 16) < 10)"):
            out.line("PipeBarrier<PIPE_M>();")
        out.line("xL0.FreeTensor(a);")
        out.line("wL0.FreeTensor(b);")


def _write_store(out: CppWriter, product: CubeProduct) -> None:
    sums = _CPP_TYPE[product.sum_dtype]
    rounded = "as they are" if product.dtype in CODES else "rounded once"
    out.line(f"// The sums to y, {rounded}.")
    with out.block("__aicore__ inline void Store(uint64_t to)"):
        out.line(f"LocalTensor<{sums}> y = yL0.DeQue<{sums}>();")
        out.line("FixpipeParamsV220 p;")
        _write_fields(
            out,
            nSize="columns",
            mSize="rows",
            srcStride="Pad16(rows)",
            dstStride="Y_ROW",
            quantPre=f"QuantMode_t::{_QUANT_MODE[product.out_dtype]}",
            deqScalar="0",
        )
        out.line(f"Fixpipe<Out, {sums}, CFG_ROW_MAJOR>(yGm[to], y, p);")
        out.line("yL0.FreeTensor(y);")


def _write_run(out: CppWriter, code: TileCode) -> None:
    stays, sums = code.tile.x_stays, _CPP_TYPE[code.product.sum_dtype]
    x = "const LocalTensor<In>& x" if stays else "uint64_t xFrom"
    out.line("// One tile of y; offsets of its first row of x, first column of W, first element.")
    with out.block(f"__aicore__ inline void Run({x}, uint64_t wFrom, uint64_t yTo)"):
        out.line(f"LocalTensor<{sums}> y = yL0.AllocTensor<{sums}>();")
        with out.block("for (uint32_t k = 0; k < K; k += L1_K)"):
            out.line("const uint32_t depth = Smaller(L1_K, K - k);")
            if not stays:
                out.line("CopyX(xFrom + k, depth);")
            out.line("CopyW(wFrom + k * W_K, depth);")
            if not stays:
                out.line("LocalTensor<In> x = xL1.DeQue<In>();")
            out.line("LocalTensor<In> w = wL1.DeQue<In>();")
            with out.block("for (uint32_t part = 0; part < depth; part += L0_K)"):
                out.line("const uint32_t terms = Smaller(L0_K, depth - part);")
                out.line(f"LoadX(x, {'k + part' if stays else 'part'}, terms);")
                out.line("LoadW(w, part, terms);")
                out.line("Multiply(y, terms, k + part == 0);")
            if not stays:
                out.line("xL1.FreeTensor(x);")
            out.line("wL1.FreeTensor(w);")
        out.line("yL0.EnQue(y);")
        out.line("Store(yTo);")


def _write_fields(out: CppWriter, **values: str) -> None:
    """Fill a parameter struct by field name."""
    out.lines(f"p.{field} = {value};" for field, value in values.items())
