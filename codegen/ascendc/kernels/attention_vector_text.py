"""The text of a vector core's part of a flash-attention step: online softmax in float.

Scores arrive as ``[keys, lanes]``. ``MAXIMUM`` and ``TOTAL`` hold one number per lane; ``OUTPUT``
holds ``[lanes, VALUES]`` sums that are rescaled whenever a maximum grows:

    peak = max(maximum, scores)          factor = exp(maximum - peak)
    weights = exp(scores - peak)         total = total * factor + sum(weights)
    output = output * factor + weights^T * values

The weights are rounded once to the plan format; ``total`` adds them before that rounding.

Source: FlashAttention-2 (Dao, 2023), algorithm 1; the transposed form is ours.
"""

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import REPEAT_FLOATS
from ascendfx.codegen.ascendc.kernels.attention_tiles import AttentionTiles
from ascendfx.codegen.ascendc.kernels.replace_once import replace_once
from ascendfx.ir.tensor_type import DType

_FREE_FOR_SCORES = {
    DType.F32: "Handoff<HardEvent::MTE3_MTE2>();  // the weights in `tile` are stored",
    DType.BF16: """\
Handoff<HardEvent::V_MTE2>();
        Handoff<HardEvent::MTE3_V>();  // the weights in `fold` are stored""",
}
"""What has to be over before a step writes ``TILE`` and, rounded to bf16, ``FOLD`` again."""

_FREE_FOR_PRODUCTS = """\
        Handoff<HardEvent::MTE3_MTE2>();  // the weights in `tile` are stored
"""

_HANDOFF = """\
// Everything issued later on the second pipe waits for everything issued so far on the first.
template <HardEvent event>
__aicore__ inline void Handoff() {
    SetFlag<event>(0);
    WaitFlag<event>(0);
}
"""

_ROW_PARAMETERS = """\
// One repeat per key: a row of lanes against the same row of lanes.
__aicore__ inline BinaryRepeatParams SameLanes(uint32_t lanes) {
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = 1;
    repeat.src1BlkStride = 1;
    repeat.dstRepStride = lanes / 8;
    repeat.src0RepStride = lanes / 8;
    repeat.src1RepStride = 0;
    return repeat;
}

// One repeat per lane: its values against a block full of the lane's factor.
__aicore__ inline BinaryRepeatParams FactorOfLane() {
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = 1;
    repeat.src1BlkStride = 0;
    repeat.dstRepStride = VALUES / 8;
    repeat.src0RepStride = VALUES / 8;
    repeat.src1RepStride = 1;
    return repeat;
}
"""

_MEMBERS = """\
// Softmax state of `lanes` query vectors, from lane `firstLane` of the tile.
struct VectorCore {
    uint32_t firstLane = 0;
    uint32_t lanes = 0;
    LocalTensor<float> output{TPosition::VECOUT, OUTPUT, VECTOR_LANES * VALUES};
    LocalTensor<float> tile{TPosition::VECIN, TILE, 2 * HALF_TILE};
    LocalTensor<float> fold{TPosition::VECCALC, FOLD, KEY_TILE / 2 * VECTOR_LANES};
    LocalTensor<float> maximum{TPosition::VECOUT, MAXIMUM, VECTOR_LANES};
    LocalTensor<float> total{TPosition::VECOUT, TOTAL, VECTOR_LANES};
    LocalTensor<float> peak{TPosition::VECCALC, PEAK, VECTOR_LANES};
    LocalTensor<float> factor{TPosition::VECCALC, FACTOR, 2 * VECTOR_LANES};
    LocalTensor<float> factorBlocks{TPosition::VECCALC, FACTOR_BLOCKS, VECTOR_LANES * 8};
"""

_START = """\
    // Takes this core's share of `tileLanes` lanes, a multiple of 16.
    __aicore__ inline void Start(uint32_t tileLanes) {
        firstLane = static_cast<uint32_t>(GetSubBlockIdx()) * VECTOR_LANES;
        lanes = firstLane < tileLanes ? Smaller(VECTOR_LANES, tileLanes - firstLane) : 0;
        Duplicate(output, 0.0f, static_cast<int32_t>(lanes * VALUES));
        Duplicate(maximum, NEGLIGIBLE, static_cast<int32_t>(lanes));
        Duplicate(total, 0.0f, static_cast<int32_t>(lanes));
    }

    // scores[keys, LANES] in GM to tile[KEY_TILE, lanes]; keys without a score weigh nothing.
    __aicore__ inline void LoadScores(const GlobalTensor<float>& scores, uint32_t keys) {
        DataCopyParams copy;
        copy.blockCount = keys;
        copy.blockLen = lanes / 8;
        copy.srcStride = (LANES - lanes) / 8;
        copy.dstStride = 0;
        @FREE@
        DataCopy(tile, scores[firstLane], copy);
        Handoff<HardEvent::MTE2_V>();
        Muls(tile, tile, SCALE, static_cast<int32_t>(keys * lanes));
        Duplicate(tile[keys * lanes], NEGLIGIBLE, static_cast<int32_t>((KEY_TILE - keys) * lanes));
    }

    // tile = exp(tile - peak); the statistics move on; factor[slot] rescales what came before.
    __aicore__ inline void Weigh(uint32_t slot) {
        const LocalTensor<float> rescale = factor[slot * VECTOR_LANES];
        const int32_t count = static_cast<int32_t>(lanes);
        const int32_t half = static_cast<int32_t>(KEY_TILE / 2 * lanes);
        Max(fold, tile, tile[KEY_TILE / 2 * lanes], half);
        for (uint32_t rows = KEY_TILE / 4; rows > 0; rows /= 2) {
            Max(fold, fold, fold[rows * lanes], static_cast<int32_t>(rows * lanes));
        }
        Max(peak, maximum, fold, count);
        Sub(rescale, maximum, peak, count);
        Exp(rescale, rescale, count);
        Adds(maximum, peak, 0.0f, count);
        Sub(tile, tile, peak, static_cast<uint64_t>(lanes), static_cast<uint8_t>(KEY_TILE),
            SameLanes(lanes));
        Exp(tile, tile, static_cast<int32_t>(KEY_TILE * lanes));
        Add(fold, tile, tile[KEY_TILE / 2 * lanes], half);
        for (uint32_t rows = KEY_TILE / 4; rows > 0; rows /= 2) {
            Add(fold, fold, fold[rows * lanes], static_cast<int32_t>(rows * lanes));
        }
        Mul(total, total, rescale, count);
        Add(total, total, fold, count);
    }
"""

_STORE_BF16 = """\
    // tile[keys, lanes], rounded, to probabilities[keys, LANES] in GM. Uses the memory of `fold`.
    __aicore__ inline void StoreWeights(const GlobalTensor<Element>& probabilities, uint32_t keys) {
        LocalTensor<Element> rounded(TPosition::VECOUT, FOLD, KEY_TILE * VECTOR_LANES);
        Cast(rounded, tile, RoundMode::CAST_RINT, keys * lanes);
        DataCopyParams copy;
        copy.blockCount = keys;
        copy.blockLen = lanes / 16;
        copy.srcStride = 0;
        copy.dstStride = (LANES - lanes) / 16;
        Handoff<HardEvent::V_MTE3>();
        DataCopy(probabilities[firstLane], rounded, copy);
    }
"""

_STORE_F32 = """\
    // tile[keys, lanes] to probabilities[keys, LANES] in GM.
    __aicore__ inline void StoreWeights(const GlobalTensor<Element>& probabilities, uint32_t keys) {
        LocalTensor<float> weights(TPosition::VECOUT, TILE, 2 * HALF_TILE);
        DataCopyParams copy;
        copy.blockCount = keys;
        copy.blockLen = lanes / 8;
        copy.srcStride = 0;
        copy.dstStride = (LANES - lanes) / 8;
        Handoff<HardEvent::V_MTE3>();
        DataCopy(probabilities[firstLane], weights, copy);
    }
"""

_ACCUMULATE = f"""\
    // Fills the block of every lane with the lane's number.
    __aicore__ inline void SpreadOverBlocks(const LocalTensor<float>& numbers) {{
        BrcbRepeatParams repeat;
        repeat.dstBlkStride = 1;
        repeat.dstRepStride = 8;
        Brcb(factorBlocks, numbers, static_cast<uint8_t>(lanes / 8), repeat);
    }}

    // output = output * factor[slot] + products[lanes, VALUES]
    __aicore__ inline void Accumulate(const GlobalTensor<float>& products, uint32_t slot) {{
        @FREE_TILE@
        SetFlag<HardEvent::V_MTE2>(0);
        SetFlag<HardEvent::V_MTE2>(1);
        SpreadOverBlocks(factor[slot * VECTOR_LANES]);
        const uint8_t repeats = static_cast<uint8_t>(lanes);
        for (uint32_t column = 0; column < VALUES; column += {REPEAT_FLOATS}) {{
            const uint64_t columns = Smaller({REPEAT_FLOATS}, VALUES - column);
            Mul(output[column], output[column], factorBlocks, columns, repeats, FactorOfLane());
        }}
        DataCopyParams copy;
        copy.blockLen = VALUES / 8;
        copy.srcStride = (VALUE_PITCH - VALUES) / 8;
        copy.dstStride = 0;
        int32_t half = 0;  // of `tile`: one is loaded while the other is added
        for (uint32_t lane = 0; lane < lanes; lane += HALF_TILE / VALUES) {{
            const LocalTensor<float> rows = tile[half * HALF_TILE];
            copy.blockCount = Smaller(HALF_TILE / VALUES, lanes - lane);
            const int32_t count = static_cast<int32_t>(copy.blockCount * VALUES);
            WaitFlag<HardEvent::V_MTE2>(half);
            DataCopy(rows, products[(firstLane + lane) * VALUE_PITCH], copy);
            SetFlag<HardEvent::MTE2_V>(half);
            WaitFlag<HardEvent::MTE2_V>(half);
            Add(output[lane * VALUES], output[lane * VALUES], rows, count);
            SetFlag<HardEvent::V_MTE2>(half);
            half ^= 1;
        }}
        WaitFlag<HardEvent::V_MTE2>(0);
        WaitFlag<HardEvent::V_MTE2>(1);
    }}
"""


_DIVIDE_ROWS = f"""\
    // output[lane, :] /= numbers[lane]
    __aicore__ inline void DivideRows(const LocalTensor<float>& numbers) {{
        SpreadOverBlocks(numbers);
        const uint8_t repeats = static_cast<uint8_t>(lanes);
        for (uint32_t column = 0; column < VALUES; column += {REPEAT_FLOATS}) {{
            const uint64_t columns = Smaller({REPEAT_FLOATS}, VALUES - column);
            Div(output[column], output[column], factorBlocks, columns, repeats, FactorOfLane());
        }}
    }}
"""


def divide_rows_text() -> str:
    """Return the member that divides every row of the output by a number of its lane."""
    return _DIVIDE_ROWS


def write_vector_core(out: CppWriter, tiles: AttentionTiles, methods: tuple[str, ...]) -> None:
    """Write ``struct VectorCore``.

    Args:
        out: Text so far.
        tiles: Tile sizes.
        methods: Members that only one kernel has, for example masking or the final store.
    """
    out.lines(_HANDOFF.splitlines())
    out.line()
    out.lines(_ROW_PARAMETERS.splitlines())
    out.line()
    in_place = tiles.dtype is DType.F32
    start = replace_once(_START, ("@FREE@", _FREE_FOR_SCORES[tiles.dtype]))
    free = _FREE_FOR_PRODUCTS if in_place else ""
    accumulate = replace_once(_ACCUMULATE, ("        @FREE_TILE@\n", free))
    out.lines(_MEMBERS.splitlines())
    for text in (start, _STORE_F32 if in_place else _STORE_BF16, accumulate, *methods):
        out.line()
        out.lines(text.splitlines())
    out.line("};")
    out.line()
