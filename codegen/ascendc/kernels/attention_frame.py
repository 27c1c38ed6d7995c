"""What both attention kernels share around the two cores: constants, exchange through GM, frame."""

from collections.abc import Generator, Iterable, Sequence
from contextlib import contextmanager

import numpy as np

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernel import KernelArgument, KernelKind
from ascendfx.codegen.ascendc.kernels.attention_tiles import MAX_KEY_SLOTS, AttentionTiles
from ascendfx.codegen.ascendc.kernels.kernel_entry import kernel_entry
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.kernels.replace_once import replace_once
from ascendfx.codegen.ascendc.kernels.vector_kernel import CPP_TYPE
from ascendfx.codegen.ascendc.target import Target

NEGLIGIBLE = -1.0e30
"""Stands for -infinity: exp(NEGLIGIBLE - m) is 0 for every score m, and no difference is NaN."""

_EXCHANGE = """\
// Tiles that cross between the cores of a group, two slots of each. A slot is written again only
// after the flag that its reader raises afterwards anyway: no extra flags.
struct Exchange {
    GlobalTensor<float> scores;           // [2][KEY_TILE][LANES], cube to vector
    GlobalTensor<Element> probabilities;  // [2][KEY_TILE][LANES], vector to cube
    GlobalTensor<float> products;         // [2][LANES][VALUE_PITCH], cube to vector

    __aicore__ inline void Open(GM_ADDR workspace, uint32_t group) {
        GM_ADDR own = workspace + static_cast<uint64_t>(group) * GROUP_BYTES;
        scores.SetGlobalBuffer((__gm__ float*)(own + SCORES_GM), 2 * KEY_TILE * LANES);
        probabilities.SetGlobalBuffer((__gm__ Element*)(own + PROBABILITIES_GM),
                                      2 * KEY_TILE * LANES);
        products.SetGlobalBuffer((__gm__ float*)(own + PRODUCTS_GM), 2 * LANES * VALUE_PITCH);
    }
    __aicore__ inline GlobalTensor<float> Scores(uint32_t slot) {
        return scores[slot * KEY_TILE * LANES];
    }
    __aicore__ inline GlobalTensor<Element> Probabilities(uint32_t slot) {
        return probabilities[slot * KEY_TILE * LANES];
    }
    __aicore__ inline GlobalTensor<float> Products(uint32_t slot) {
        return products[slot * LANES * VALUE_PITCH];
    }
};
"""

_ARITHMETIC = """\
__aicore__ inline uint32_t Smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

__aicore__ inline uint32_t Pieces(uint32_t size, uint32_t piece) {
    return (size + piece - 1) / piece;
}
"""


def float_constant(value: float) -> str:
    """Return the ``float`` literal nearest to ``value``."""
    text = np.format_float_scientific(np.float32(value), unique=True, trim="0")
    return f"{text}f"


def memory_comment(tiles: AttentionTiles, groups: int) -> tuple[str, ...]:
    """Return the comment lines that say how a step is cut and what it takes."""
    return (
        f"// Step: {tiles.lanes} queries x {tiles.key_tile} keys in one of {tiles.key_slots} L1 "
        "slots;",
        f"// L0 loads of {tiles.k_step} contraction and {tiles.n_step} value columns.",
        f"// Local bytes: L1 {tiles.l1_bytes:,}, UB {tiles.unified_bytes:,}; workspace "
        f"{tiles.workspace_bytes:,} for each of {groups} groups.",
        "// The scores of step i+1 run before the products of step i, so that the softmax of one",
        "// step overlaps the products of another.",
    )


def write_head(
    out: CppWriter, comment: Sequence[str], constants: dict[str, int], scale: float
) -> None:
    """Write the plan, the include and the constants of one kernel."""
    out.lines(comment)
    out.line('#include "kernel_operator.h"')
    out.line("using namespace AscendC;")
    out.line()
    for name, value in constants.items():
        out.line(f"constexpr uint32_t {name} = {value};")
    out.line(f"constexpr float SCALE = {float_constant(scale)};")
    out.line(f"constexpr float NEGLIGIBLE = {float_constant(NEGLIGIBLE)};")


def write_views(out: CppWriter, views: Iterable[tuple[str, MatrixView]]) -> None:
    """Write where the heads of each named tensor lie: offset, and distance of rows and heads."""
    for name, view in views:
        out.line(f"constexpr uint64_t {name.upper()}_OFFSET = {view.offset};")
        out.line(f"constexpr uint64_t {name.upper()}_ROW = {view.row_stride};")
        out.line(f"constexpr uint64_t {name.upper()}_HEAD = {view.batch_stride};")
    out.line()


def write_tile_constants(out: CppWriter, tiles: AttentionTiles, target: Target) -> None:
    """Write sizes, addresses, flags and ``struct Exchange``."""
    out.line(f"using Element = {CPP_TYPE[tiles.dtype]};")
    _constants(
        out,
        (
            ("K0", tiles.fractal_columns),
            ("LANES", tiles.lanes),
            ("KEY_TILE", tiles.key_tile),
            ("KEY_SLOTS", tiles.key_slots),
            ("K_STEP", tiles.k_step),
            ("N_STEP", tiles.n_step),
            ("VALUES", tiles.value_width),
            ("VALUE_PITCH", tiles.value_pitch),
            ("VECTOR_LANES", tiles.vector_lanes),
            ("L0_HALF", min(target.l0a_buffer, target.l0b_buffer) // 2),
            ("L0C_HALF", target.l0c_buffer // 2),
        ),
    )
    out.line("// Byte addresses in L1.")
    queries = tiles.key_slots * tiles.key_slot_bytes
    _constants(
        out,
        (
            ("KEY_SLOT", tiles.key_slot_bytes),
            ("QUERY_L1", queries),
            ("PROBABILITY_L1", queries + tiles.query_bytes),
        ),
    )
    out.line("// Byte addresses in UB.")
    address = 0
    for name, size in tiles.vector_regions:
        if size:
            out.line(f"constexpr uint32_t {name} = {address};")
        address += size
    if tiles.codes:
        out.line(
            "// What codes are decoded with, over TILE and FOLD, between weights and products."
        )
        address = dict(tiles.vector_regions)["OUTPUT"]
        for name, size in tiles.decode_regions:
            out.line(f"constexpr uint32_t {name} = {address};")
            address += size
    tile_bytes = dict(tiles.vector_regions)["TILE"]
    out.line(f"constexpr uint32_t HALF_TILE = {tile_bytes // 8};  // elements")
    out.line("// Byte offsets in the workspace of a group.")
    products = 2 * (tiles.score_bytes + tiles.probability_bytes)
    _constants(
        out,
        (
            ("SCORES_GM", 0),
            ("PROBABILITIES_GM", 2 * tiles.score_bytes),
            ("PRODUCTS_GM", products),
            *((("DECODED_GM", tiles.exchanged_bytes),) * tiles.codes),
            ("GROUP_BYTES", tiles.workspace_bytes),
        ),
    )
    out.line(
        "// Flags between the cores of a group; events of the L1 buffers beside the key slots."
    )
    for name, value in (
        ("SCORES_READY", 0),
        ("WEIGHTS_READY", 1),
        ("PRODUCTS_READY", 2),
        *((("DECODED_READY", 3),) * tiles.codes),
    ):
        out.line(f"constexpr uint16_t {name} = {value};")
    for name, value in (("QUERIES", MAX_KEY_SLOTS), ("PROBABILITIES", MAX_KEY_SLOTS + 1)):
        out.line(f"constexpr int32_t {name} = {value};")
    out.line()
    for text in (_ARITHMETIC, replace_once(_EXCHANGE, *_DECODED) if tiles.codes else _EXCHANGE):
        out.lines(text.splitlines())
        out.line()


_DECODED = (
    (
        "    GlobalTensor<float> products;         // [2][LANES][VALUE_PITCH], cube to vector\n",
        """\
    GlobalTensor<float> products;         // [2][LANES][VALUE_PITCH], cube to vector
    GlobalTensor<Element> decoded;        // [KEY_SLOTS][KEY_TILE][LATENT], vector to cube
""",
    ),
    (
        "        products.SetGlobalBuffer((__gm__ float*)(own + PRODUCTS_GM), "
        "2 * LANES * VALUE_PITCH);\n",
        """\
        products.SetGlobalBuffer((__gm__ float*)(own + PRODUCTS_GM), 2 * LANES * VALUE_PITCH);
        decoded.SetGlobalBuffer((__gm__ Element*)(own + DECODED_GM),
                                KEY_SLOTS * KEY_TILE * LATENT);
""",
    ),
    (
        "        return products[slot * LANES * VALUE_PITCH];\n    }\n",
        """\
        return products[slot * LANES * VALUE_PITCH];
    }
    __aicore__ inline GlobalTensor<Element> Decoded(uint32_t slot) const {
        return decoded[slot * KEY_TILE * LATENT];
    }
""",
    ),
)


@contextmanager
def mixed_kernel(out: CppWriter, name: str, arguments: Sequence[KernelArgument]) -> Generator[None]:
    """Write the signature, kernel type and state reset; the body; and the closing barrier."""
    with kernel_entry(out, name, KernelKind.MIX, arguments):
        out.line("InitSocState();")
        yield
        out.line("PipeBarrier<PIPE_ALL>();")


def _constants(out: CppWriter, values: Sequence[tuple[str, int]]) -> None:
    for name, value in values:
        out.line(f"constexpr uint32_t {name} = {value};")


def write_tensors(out: CppWriter, arguments: Sequence[KernelArgument]) -> None:
    """Write a GlobalTensor member per argument and ``Open``, which takes their addresses."""
    for argument in arguments:
        out.line(f"GlobalTensor<{CPP_TYPE[argument.dtype]}> {_member(argument.name)};")
    out.line()
    parameters = ", ".join(f"GM_ADDR {argument.name}_" for argument in arguments)
    with out.block(f"__aicore__ inline void Open({parameters})"):
        for argument in arguments:
            scalar = CPP_TYPE[argument.dtype]
            out.line(
                f"{_member(argument.name)}.SetGlobalBuffer((__gm__ {scalar}*){argument.name}_, "
                f"{argument.elements});"
            )


def _member(name: str) -> str:
    first, *rest = name.split("_")
    return first + "".join(word.capitalize() for word in rest)
