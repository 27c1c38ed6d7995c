"""The text of decode attention whose latent cache holds int8 codes with a scale per token.

The vector cores turn the codes of a step into numbers, half of its keys each, round them as the
model's format does and leave them in GM, where the cube core takes them as it takes a cache of
numbers: scores and sums are bit for bit those of a cache that holds the rounded numbers. They are
``KEY_SLOTS - 1`` steps ahead. A slot is written again only when the scores of the step that was in
it have come back: no flag tells that it is free.
"""

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import REPEAT_FLOATS
from ascendfx.codegen.ascendc.kernels.attention_cube_text import write_load_values
from ascendfx.codegen.ascendc.kernels.attention_tiles import CODE_ROWS, AttentionTiles
from ascendfx.codegen.ascendc.kernels.replace_once import Change, replace_once
from ascendfx.ir.tensor_type import DType

_LOAD_CODES = f"""\
// Codes and scales of {CODE_ROWS} keys from `key` on, which lie in one cache block.
__aicore__ inline void LoadCodes(const Work& work, uint32_t key,
                                 const LocalTensor<int8_t>& codes,
                                 const LocalTensor<float>& scales) const {{
    const uint64_t entry = work.request * MAX_BLOCKS + key / BLOCK_TOKENS;
    const uint64_t block = static_cast<uint32_t>(blockTable.GetValue(entry));
    const uint64_t token = block * BLOCK_TOKENS + key % BLOCK_TOKENS;
    DataCopy(codes, latentCache[token * LATENT], {CODE_ROWS} * LATENT);
    DataCopy(scales, scaleCache[token], {CODE_ROWS});
}}
"""

_LOAD_CODES_IN_TREE = f"""\
// Where a key stands: as it is, or at a node of the tree.
__aicore__ inline uint32_t EntryOf(const Work& work, uint32_t key) const {{
    uint32_t next = work.before;
    for (uint32_t node = 0; work.ancestors >> node != 0; ++node) {{
        if ((work.ancestors >> node) % 2 == 1) {{
            if (next == key) {{
                return work.before + node;
            }}
            next += 1;
        }}
    }}
    return key;
}}

// The token of the cache that is a key of a row; behind the last one it is that one again.
__aicore__ inline uint64_t TokenOf(const Work& work, uint32_t key) const {{
    const uint32_t entry = EntryOf(work, Smaller(key, work.end - 1));
    const uint64_t column = work.request * MAX_BLOCKS + entry / BLOCK_TOKENS;
    const uint64_t block = static_cast<uint32_t>(blockTable.GetValue(column));
    return block * BLOCK_TOKENS + entry % BLOCK_TOKENS;
}}

// Codes of {CODE_ROWS} keys from `key` on.
__aicore__ inline void LoadCodes(const Work& work, uint32_t key,
                                 const LocalTensor<int8_t>& codes) const {{
    for (uint32_t row = 0; row < {CODE_ROWS}; ++row) {{
        DataCopy(codes[row * LATENT], latentCache[TokenOf(work, key + row) * LATENT], LATENT);
    }}
}}

// A block of UB with the scale of each.
__aicore__ inline void SpreadScales(const Work& work, uint32_t key,
                                    const LocalTensor<float>& scaleBlocks) const {{
    for (uint32_t row = 0; row < {CODE_ROWS}; ++row) {{
        Duplicate(scaleBlocks[row * 8], scaleCache.GetValue(TokenOf(work, key + row)), 8);
    }}
}}
"""

_DECODE = f"""\
    // Codes of this core's half of the keys of a step to `decoded[KEY_TILE, LATENT]` in GM, through
    // the memory of `tile` and `fold`.
    __aicore__ inline void Decode(const Inputs& inputs, const Work& work, uint32_t step,
                                  const GlobalTensor<Element>& decoded) {{
        const LocalTensor<int8_t> codes(TPosition::VECIN, CODES, {CODE_ROWS} * LATENT);
        const LocalTensor<half> halves(TPosition::VECCALC, HALVES, {CODE_ROWS} * LATENT);
        const LocalTensor<float> numbers(TPosition::VECCALC, NUMBERS, {CODE_ROWS} * LATENT);
@SCALES@
        const LocalTensor<float> scaleBlocks(TPosition::VECCALC, SCALE_BLOCKS, {CODE_ROWS} * 8);
        const uint32_t first = static_cast<uint32_t>(GetSubBlockIdx()) * (KEY_TILE / 2);
        const uint32_t end = Smaller(first + KEY_TILE / 2, KeysOf(work, step));
        Handoff<HardEvent::MTE3_MTE2>();
        for (uint32_t row = first; row < end; row += {CODE_ROWS}) {{
            const uint32_t key = work.begin + step * KEY_TILE + row;
            inputs.LoadCodes(work, key, codes@LOADED@);
            Handoff<HardEvent::MTE2_V>();
            Cast(halves, codes, RoundMode::CAST_NONE, {CODE_ROWS} * LATENT);
            Cast(numbers, halves, RoundMode::CAST_NONE, {CODE_ROWS} * LATENT);
@SPREAD@
            for (uint32_t column = 0; column < LATENT; column += {REPEAT_FLOATS}) {{
                const uint64_t columns = Smaller({REPEAT_FLOATS}, LATENT - column);
                Mul(numbers[column], numbers[column], scaleBlocks, columns, {CODE_ROWS},
                    FactorOfLane());
            }}
@ROUND@
            DataCopy(decoded[row * LATENT], rounded, {CODE_ROWS} * LATENT);
            Handoff<HardEvent::MTE3_MTE2>();
        }}
        CrossCoreSetFlag<2, PIPE_MTE3>(DECODED_READY);
    }}
"""

_SCALES = f"""\
        const LocalTensor<float> scales(TPosition::VECIN, SCALES, {CODE_ROWS});
"""

_SPREAD_IN_TREE = """\
            inputs.SpreadScales(work, key, scaleBlocks);
"""

_SPREAD = """\
            BrcbRepeatParams repeat;
            repeat.dstBlkStride = 1;
            repeat.dstRepStride = 8;
            Brcb(scaleBlocks, scales, 1, repeat);
"""

_ROUND = {
    DType.BF16: f"""\
            const LocalTensor<Element> rounded(TPosition::VECOUT, HALVES, {CODE_ROWS} * LATENT);
            Cast(rounded, numbers, RoundMode::CAST_RINT, {CODE_ROWS} * LATENT);
            Handoff<HardEvent::V_MTE3>();
""",
    DType.F32: f"""\
            const LocalTensor<Element> rounded(TPosition::VECOUT, NUMBERS, {CODE_ROWS} * LATENT);
            Handoff<HardEvent::V_MTE3>();
""",
}

CUBE_CHANGES: tuple[Change, ...] = (
    (
        "inputs.LoadKeys(work, step, (turn + step) % KEY_SLOTS);",
        "const uint32_t slot = (turn + step) % KEY_SLOTS;\n"
        "            inputs.LoadKeys(work, step, slot, exchange.Decoded(slot));",
    ),
    (
        """\
                if (ahead < steps) {  // behind the weights, which are needed sooner
                    inputs.LoadKeys(work, ahead, (turn + ahead) % KEY_SLOTS);
                }
""",
        "",
    ),
    (
        """\
                CrossCoreSetFlag<2, PIPE_FIX>(PRODUCTS_READY);
""",
        """\
                CrossCoreSetFlag<2, PIPE_FIX>(PRODUCTS_READY);
                if (ahead < steps) {  // behind all that does not wait for codes
                    const uint32_t next = (turn + ahead) % KEY_SLOTS;
                    inputs.LoadKeys(work, ahead, next, exchange.Decoded(next));
                }
""",
    ),
)
"""How the cube core's loop differs from that over a cache of numbers."""

VECTOR_CHANGES: tuple[Change, ...] = (
    (
        "        core.Start(Pad16(work.lanes));\n",
        """\
        core.Start(Pad16(work.lanes));
        for (uint32_t step = 0; step < Smaller(steps, KEY_SLOTS - 1); ++step) {
            core.Decode(inputs, work, step, exchange.Decoded((turn + step) % KEY_SLOTS));
        }
""",
    ),
    (
        "                CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);\n",
        """\
                CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);
                const uint32_t ahead = step + KEY_SLOTS - 1;
                if (ahead < steps) {
                    core.Decode(inputs, work, ahead, exchange.Decoded((turn + ahead) % KEY_SLOTS));
                }
""",
    ),
)
"""How the vector cores' loop differs."""


def decode_text(dtype: DType, *, tree: bool) -> str:
    """Return the member of ``VectorCore`` that makes numbers of codes."""
    return replace_once(
        _DECODE,
        ("@SCALES@\n", "" if tree else _SCALES),
        ("@LOADED@", "" if tree else ", scales"),
        ("@SPREAD@\n", _SPREAD_IN_TREE if tree else _SPREAD),
        ("@ROUND@\n", _ROUND[dtype]),
    )


def write_load_codes(out: CppWriter, *, tree: bool) -> None:
    """Write ``Inputs::LoadCodes`` and, for rows in a tree, where their scales come from."""
    out.lines((_LOAD_CODES_IN_TREE if tree else _LOAD_CODES).splitlines())
    out.line()


def write_load_decoded(out: CppWriter, tiles: AttentionTiles) -> None:
    """Write the copy of the numbers of a step to L1, behind the vector cores."""
    out.line("CrossCoreWaitFlag(DECODED_READY);")
    write_load_values(out, tiles, "Values(slot)", "decoded", "LATENT")
