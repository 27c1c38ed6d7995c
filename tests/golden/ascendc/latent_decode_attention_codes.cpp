// latent_decode_attention_codes: latent attention of 128 heads, latent 512 + rope 64 x bf16,
// at most 8 rows; 1 head tiles x 2 splits of a row over 16 groups.
// Latent vectors are int8 codes with a scale per token.
// Step: 128 queries x 64 keys in one of 4 L1 slots;
// L0 loads of 128 contraction and 128 value columns.
// Local bytes: L1 458,752, UB 163,392; workspace 884,736 for each of 16 groups.
// The scores of step i+1 run before the products of step i, so that the softmax of one
// step overlaps the products of another.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t ROWS = 8;
constexpr uint32_t ROWS_SLOT = 0;
constexpr uint32_t HEADS = 128;
constexpr uint32_t HEAD_TILES = 1;
constexpr uint32_t SPLITS = 2;
constexpr uint32_t GROUPS = 16;
constexpr uint32_t LATENT = 512;
constexpr uint32_t ROPE = 64;
constexpr uint32_t BLOCK_TOKENS = 128;
constexpr uint32_t MAX_BLOCKS = 32;
constexpr uint32_t STATISTICS_PITCH = 128;
constexpr float SCALE = 4.1666668e-02f;
constexpr float NEGLIGIBLE = -1.0e+30f;
using Element = bfloat16_t;
constexpr uint32_t K0 = 16;
constexpr uint32_t LANES = 128;
constexpr uint32_t KEY_TILE = 64;
constexpr uint32_t KEY_SLOTS = 4;
constexpr uint32_t K_STEP = 128;
constexpr uint32_t N_STEP = 128;
constexpr uint32_t VALUES = 512;
constexpr uint32_t VALUE_PITCH = 512;
constexpr uint32_t VECTOR_LANES = 64;
constexpr uint32_t L0_HALF = 32768;
constexpr uint32_t L0C_HALF = 65536;
// Byte addresses in L1.
constexpr uint32_t KEY_SLOT = 73728;
constexpr uint32_t QUERY_L1 = 294912;
constexpr uint32_t PROBABILITY_L1 = 442368;
// Byte addresses in UB.
constexpr uint32_t OUTPUT = 0;
constexpr uint32_t TILE = 131072;
constexpr uint32_t FOLD = 151872;
constexpr uint32_t MAXIMUM = 160064;
constexpr uint32_t TOTAL = 160320;
constexpr uint32_t PEAK = 160576;
constexpr uint32_t FACTOR = 160832;
constexpr uint32_t FACTOR_BLOCKS = 161344;
// What codes are decoded with, over TILE and FOLD, between weights and products.
constexpr uint32_t CODES = 131072;
constexpr uint32_t HALVES = 135168;
constexpr uint32_t NUMBERS = 143360;
constexpr uint32_t SCALES = 159744;
constexpr uint32_t SCALE_BLOCKS = 159776;
constexpr uint32_t HALF_TILE = 2600;  // elements
// Byte offsets in the workspace of a group.
constexpr uint32_t SCORES_GM = 0;
constexpr uint32_t PROBABILITIES_GM = 65536;
constexpr uint32_t PRODUCTS_GM = 98304;
constexpr uint32_t DECODED_GM = 622592;
constexpr uint32_t GROUP_BYTES = 884736;
// Flags between the cores of a group; events of the L1 buffers beside the key slots.
constexpr uint16_t SCORES_READY = 0;
constexpr uint16_t WEIGHTS_READY = 1;
constexpr uint16_t PRODUCTS_READY = 2;
constexpr uint16_t DECODED_READY = 3;
constexpr int32_t QUERIES = 4;
constexpr int32_t PROBABILITIES = 5;

__aicore__ inline uint32_t Smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

__aicore__ inline uint32_t Pieces(uint32_t size, uint32_t piece) {
    return (size + piece - 1) / piece;
}

// Tiles that cross between the cores of a group, two slots of each. A slot is written again only
// after the flag that its reader raises afterwards anyway: no extra flags.
struct Exchange {
    GlobalTensor<float> scores;           // [2][KEY_TILE][LANES], cube to vector
    GlobalTensor<Element> probabilities;  // [2][KEY_TILE][LANES], vector to cube
    GlobalTensor<float> products;         // [2][LANES][VALUE_PITCH], cube to vector
    GlobalTensor<Element> decoded;        // [KEY_SLOTS][KEY_TILE][LATENT], vector to cube

    __aicore__ inline void Open(GM_ADDR workspace, uint32_t group) {
        GM_ADDR own = workspace + static_cast<uint64_t>(group) * GROUP_BYTES;
        scores.SetGlobalBuffer((__gm__ float*)(own + SCORES_GM), 2 * KEY_TILE * LANES);
        probabilities.SetGlobalBuffer((__gm__ Element*)(own + PROBABILITIES_GM),
                                      2 * KEY_TILE * LANES);
        products.SetGlobalBuffer((__gm__ float*)(own + PRODUCTS_GM), 2 * LANES * VALUE_PITCH);
        decoded.SetGlobalBuffer((__gm__ Element*)(own + DECODED_GM),
                                KEY_SLOTS * KEY_TILE * LATENT);
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
    __aicore__ inline GlobalTensor<Element> Decoded(uint32_t slot) const {
        return decoded[slot * KEY_TILE * LATENT];
    }
};

// GM rows to L1 slabs. A short last slab is filled with copies of its first row: finite numbers.
__aicore__ inline void LoadSlabs(const LocalTensor<Element>& slabs, const GlobalTensor<Element>& gm,
                                 uint32_t rows, uint32_t width, uint32_t stride, uint32_t pitch) {
    Nd2NzParams copy;
    copy.dValue = width;
    copy.srcNdMatrixStride = 0;
    copy.srcDValue = stride;
    copy.dstNzC0Stride = 16;
    copy.dstNzNStride = 1;
    copy.dstNzMatrixStride = K0;
    for (uint32_t row = 0; row < rows; row += 16) {
        const uint32_t real = Smaller(16, rows - row);
        copy.ndNum = 1;
        copy.nValue = real;
        DataCopy(slabs[row * pitch], gm[static_cast<uint64_t>(row) * stride], copy);
        if (real < 16) {
            copy.ndNum = 16 - real;
            copy.nValue = 1;
            DataCopy(slabs[row * pitch + real * K0], gm[static_cast<uint64_t>(row) * stride], copy);
        }
    }
}

// Columns [column, column + width) of slabs to L0A, as they are.
__aicore__ inline void LoadLeft(const LocalTensor<Element>& left, const LocalTensor<Element>& slabs,
                                uint32_t rows, uint32_t pitch, uint32_t column, uint32_t width) {
    LoadData2DParams load;
    load.repeatTimes = width / K0;
    load.srcStride = 1;
    load.dstGap = 0;
    for (uint32_t row = 0; row < rows; row += 16) {
        LoadData(left[row * width], slabs[row * pitch + column * 16], load);
    }
}

// The same to L0B: a row of the slabs becomes a column of the right operand.
__aicore__ inline void LoadRight(const LocalTensor<Element>& right,
                                 const LocalTensor<Element>& slabs, uint32_t rows, uint32_t pitch,
                                 uint32_t column, uint32_t width) {
    LoadData2DParams load;
    load.repeatTimes = width / K0;
    load.srcStride = 1;
    load.dstGap = rows / 16 - 1;
    for (uint32_t row = 0; row < rows; row += 16) {
        LoadData(right[row * K0], slabs[row * pitch + column * 16], load);
    }
}

// Probabilities [keys, lanes] to L0A as [lanes, keys].
__aicore__ inline void LoadLeftTurned(const LocalTensor<Element>& left,
                                      const LocalTensor<Element>& slabs, uint32_t keys,
                                      uint32_t lanes) {
    LoadData2DParams load;
    load.repeatTimes = keys / 16;
    load.srcStride = lanes / 16;
    load.dstGap = 0;
    load.ifTranspose = true;
    for (uint32_t lane = 0; lane < lanes; lane += 16) {
        LoadData(left[lane * keys], slabs[lane * 16], load);
    }
}

// Columns [column, column + width) of values [keys, columns] to L0B as they are multiplied.
__aicore__ inline void LoadRightTurned(const LocalTensor<Element>& right,
                                       const LocalTensor<Element>& slabs, uint32_t keys,
                                       uint32_t pitch, uint32_t column, uint32_t width) {
    LoadData2DParams load;
    load.repeatTimes = width / 16;
    load.srcStride = 1;
    load.dstGap = 0;
    load.ifTranspose = true;
    for (uint32_t key = 0; key < keys; key += 16) {
        LoadData(right[key * width], slabs[key * pitch + column * 16], load);
    }
}

// sums[m, n] (+)= left[m, k] * right[k, n]; small products need a barrier between them (Mmad page).
__aicore__ inline void Multiply(const LocalTensor<float>& sums, const LocalTensor<Element>& left,
                                const LocalTensor<Element>& right, uint32_t m, uint32_t n,
                                uint32_t k, bool first) {
    MmadParams product;
    product.m = m;
    product.n = n;
    product.k = k;
    product.cmatrixInitVal = first;
    if (!first && (m / 16) * (n / 16) < 10) {
        PipeBarrier<PIPE_M>();
    }
    Mmad(sums, left, right, product);
}

__aicore__ inline void StoreSums(const GlobalTensor<float>& gm, const LocalTensor<float>& sums,
                                 uint32_t m, uint32_t n, uint32_t pitch) {
    FixpipeParamsV220 store;
    store.nSize = n;
    store.mSize = m;
    store.srcStride = m;
    store.dstStride = pitch;
    store.quantPre = QuantMode_t::NoQuant;
    store.deqScalar = 0;
    Fixpipe<float, float, CFG_ROW_MAJOR>(gm, sums, store);
}

// Halves of L0A, L0B and L0C are used in turn; their numbers are also those of their events.
struct CubeCore {
    int32_t l0 = 0;
    int32_t l0c = 0;

    __aicore__ inline void Open() {
        for (int32_t half = 0; half < 2; ++half) {
            SetFlag<HardEvent::M_MTE1>(half);
            SetFlag<HardEvent::FIX_M>(half);
        }
        for (int32_t slot = 0; slot < static_cast<int32_t>(KEY_SLOTS); ++slot) {
            SetFlag<HardEvent::MTE1_MTE2>(slot);
        }
        SetFlag<HardEvent::MTE1_MTE2>(QUERIES);
        SetFlag<HardEvent::MTE1_MTE2>(PROBABILITIES);
    }

    __aicore__ inline void Close() {
        for (int32_t half = 0; half < 2; ++half) {
            WaitFlag<HardEvent::M_MTE1>(half);
            WaitFlag<HardEvent::FIX_M>(half);
        }
        for (int32_t slot = 0; slot < static_cast<int32_t>(KEY_SLOTS); ++slot) {
            WaitFlag<HardEvent::MTE1_MTE2>(slot);
        }
        WaitFlag<HardEvent::MTE1_MTE2>(QUERIES);
        WaitFlag<HardEvent::MTE1_MTE2>(PROBABILITIES);
    }

    __aicore__ inline LocalTensor<Element> Left() {
        return LocalTensor<Element>(TPosition::A2, l0 * L0_HALF, L0_HALF / sizeof(Element));
    }
    __aicore__ inline LocalTensor<Element> Right() {
        return LocalTensor<Element>(TPosition::B2, l0 * L0_HALF, L0_HALF / sizeof(Element));
    }
    __aicore__ inline LocalTensor<float> Sums() {
        return LocalTensor<float>(TPosition::CO1, l0c * L0C_HALF, L0C_HALF / sizeof(float));
    }

    __aicore__ inline void Loaded() {
        SetFlag<HardEvent::MTE1_M>(l0);
        WaitFlag<HardEvent::MTE1_M>(l0);
    }
    __aicore__ inline void Multiplied() {
        SetFlag<HardEvent::M_MTE1>(l0);
        l0 ^= 1;
    }
    __aicore__ inline void Store(const GlobalTensor<float>& gm, uint32_t m, uint32_t n,
                                 uint32_t pitch) {
        SetFlag<HardEvent::M_FIX>(l0c);
        WaitFlag<HardEvent::M_FIX>(l0c);
        StoreSums(gm, Sums(), m, n, pitch);
        SetFlag<HardEvent::FIX_M>(l0c);
        l0c ^= 1;
    }

    // Sums() (+)= keys[rows, width] * queries[lanes, width]^T
    __aicore__ inline void AddScores(const LocalTensor<Element>& keys, uint32_t keyPitch,
                                     const LocalTensor<Element>& queries, uint32_t width,
                                     uint32_t rows, uint32_t lanes, bool first) {
        for (uint32_t column = 0; column < width; column += K_STEP) {
            const uint32_t step = Smaller(K_STEP, width - column);
            WaitFlag<HardEvent::M_MTE1>(l0);
            LoadLeft(Left(), keys, rows, keyPitch, column, step);
            LoadRight(Right(), queries, lanes, width, column, step);
            Loaded();
            Multiply(Sums(), Left(), Right(), rows, lanes, step, first && column == 0);
            Multiplied();
        }
    }

    __aicore__ inline LocalTensor<Element> Weights() {
        return LocalTensor<Element>(TPosition::A1, PROBABILITY_L1, KEY_TILE * LANES);
    }

    __aicore__ inline void LoadWeights(const GlobalTensor<Element>& probabilities, uint32_t keys,
                                       uint32_t lanes) {
        WaitFlag<HardEvent::MTE1_MTE2>(PROBABILITIES);
        LoadSlabs(Weights(), probabilities, keys, lanes, LANES, lanes);
        SetFlag<HardEvent::MTE2_MTE1>(PROBABILITIES);
    }

    // products[lanes, VALUES] = weights[keys, lanes]^T * values[keys, VALUES]
    __aicore__ inline void WeighValues(const GlobalTensor<float>& products,
                                       const LocalTensor<Element>& values, uint32_t keys,
                                       uint32_t lanes) {
        WaitFlag<HardEvent::MTE2_MTE1>(PROBABILITIES);
        for (uint32_t column = 0; column < VALUE_PITCH; column += N_STEP) {
            const uint32_t step = Smaller(N_STEP, VALUE_PITCH - column);
            WaitFlag<HardEvent::M_MTE1>(l0);
            LoadLeftTurned(Left(), Weights(), keys, lanes);
            LoadRightTurned(Right(), values, keys, VALUE_PITCH, column, step);
            Loaded();
            WaitFlag<HardEvent::FIX_M>(l0c);
            Multiply(Sums(), Left(), Right(), lanes, step, keys, true);
            Multiplied();
            Store(products[column], lanes, step, VALUE_PITCH);
        }
        SetFlag<HardEvent::MTE1_MTE2>(PROBABILITIES);
    }
};

// One work item: keys [begin, end) of one row for `lanes` heads of one tile.
struct Work {
    uint32_t row;
    uint32_t head;  // first head of the tile
    uint32_t lanes;
    uint32_t split;
    uint32_t request;
    uint32_t begin;
    uint32_t end;
};

__aicore__ inline uint32_t Pad16(uint32_t size) {
    return Pieces(size, 16) * 16;
}

// Keys of one step of an item.
__aicore__ inline uint32_t KeysOf(const Work& work, uint32_t step) {
    return Smaller(KEY_TILE, work.end - work.begin - step * KEY_TILE);
}

constexpr uint64_t Q_LATENT_OFFSET = 0;
constexpr uint64_t Q_LATENT_ROW = 65536;
constexpr uint64_t Q_LATENT_HEAD = 512;
constexpr uint64_t Q_ROPE_OFFSET = 8;
constexpr uint64_t Q_ROPE_ROW = 10248;
constexpr uint64_t Q_ROPE_HEAD = 80;

struct Inputs {
    GlobalTensor<bfloat16_t> qLatent;
    GlobalTensor<bfloat16_t> qRope;
    GlobalTensor<int8_t> latentCache;
    GlobalTensor<float> scaleCache;
    GlobalTensor<bfloat16_t> ropeCache;
    GlobalTensor<int32_t> blockTable;
    GlobalTensor<int32_t> positions;
    GlobalTensor<int32_t> rowRequest;
    GlobalTensor<int32_t> sizes;

    __aicore__ inline void Open(GM_ADDR q_latent_, GM_ADDR q_rope_, GM_ADDR latent_cache_,
                                GM_ADDR scale_cache_, GM_ADDR rope_cache_, GM_ADDR block_table_,
                                GM_ADDR positions_, GM_ADDR row_request_, GM_ADDR sizes_) {
        qLatent.SetGlobalBuffer((__gm__ bfloat16_t*)q_latent_, 524288);
        qRope.SetGlobalBuffer((__gm__ bfloat16_t*)q_rope_, 81968);
        latentCache.SetGlobalBuffer((__gm__ int8_t*)latent_cache_, 16973824);
        scaleCache.SetGlobalBuffer((__gm__ float*)scale_cache_, 33152);
        ropeCache.SetGlobalBuffer((__gm__ bfloat16_t*)rope_cache_, 2121728);
        blockTable.SetGlobalBuffer((__gm__ int32_t*)block_table_, 256);
        positions.SetGlobalBuffer((__gm__ int32_t*)positions_, 8);
        rowRequest.SetGlobalBuffer((__gm__ int32_t*)row_request_, 8);
        sizes.SetGlobalBuffer((__gm__ int32_t*)sizes_, 8);
    }

    __aicore__ inline uint32_t Items() const {
        return static_cast<uint32_t>(sizes.GetValue(ROWS_SLOT)) * HEAD_TILES * SPLITS;
    }

    // Splits of a row follow each other; each takes the same number of cache blocks.
    __aicore__ inline Work Find(uint32_t item) const {
        Work work;
        work.split = item % SPLITS;
        work.head = item / SPLITS % HEAD_TILES * LANES;
        work.row = item / (SPLITS * HEAD_TILES);
        work.lanes = Smaller(LANES, HEADS - work.head);
        work.request = static_cast<uint32_t>(rowRequest.GetValue(work.row));
        const uint32_t length = static_cast<uint32_t>(positions.GetValue(work.row) + 1);
        const uint32_t share = Pieces(Pieces(length, BLOCK_TOKENS), SPLITS) * BLOCK_TOKENS;
        work.begin = Smaller(work.split * share, length);
        work.end = Smaller(work.begin + share, length);
        return work;
    }

    __aicore__ inline LocalTensor<Element> Queries(uint32_t column) const {
        return LocalTensor<Element>(TPosition::A1, QUERY_L1 + LANES * column * sizeof(Element),
                                    LANES * (LATENT + ROPE - column));
    }
    // Latent vectors of a slot: keys and values.
    __aicore__ inline LocalTensor<Element> Values(uint32_t slot) const {
        return LocalTensor<Element>(TPosition::A1, slot * KEY_SLOT, KEY_TILE * VALUE_PITCH);
    }
    __aicore__ inline LocalTensor<Element> Rope(uint32_t slot) const {
        return LocalTensor<Element>(
            TPosition::A1, slot * KEY_SLOT + KEY_TILE * VALUE_PITCH * sizeof(Element),
            KEY_TILE * ROPE);
    }

    __aicore__ inline void LoadQueries(const Work& work) const {
        const uint64_t row = work.row;
        WaitFlag<HardEvent::MTE1_MTE2>(QUERIES);
        LoadSlabs(Queries(0), qLatent[Q_LATENT_OFFSET + row * Q_LATENT_ROW +
                                      work.head * Q_LATENT_HEAD],
                  work.lanes, LATENT, Q_LATENT_HEAD, LATENT);
        LoadSlabs(Queries(LATENT), qRope[Q_ROPE_OFFSET + row * Q_ROPE_ROW +
                                         work.head * Q_ROPE_HEAD],
                  work.lanes, ROPE, Q_ROPE_HEAD, ROPE);
        SetFlag<HardEvent::MTE2_MTE1>(QUERIES);
        WaitFlag<HardEvent::MTE2_MTE1>(QUERIES);
    }

    __aicore__ inline void AddScores(CubeCore& cube, uint32_t slot, uint32_t keys,
                                     uint32_t lanes) const {
        cube.AddScores(Values(slot), VALUE_PITCH, Queries(0), LATENT, keys, lanes, true);
        cube.AddScores(Rope(slot), ROPE, Queries(LATENT), ROPE, keys, lanes, false);
    }

    // Codes and scales of 8 keys from `key` on, which lie in one cache block.
    __aicore__ inline void LoadCodes(const Work& work, uint32_t key,
                                     const LocalTensor<int8_t>& codes,
                                     const LocalTensor<float>& scales) const {
        const uint64_t entry = work.request * MAX_BLOCKS + key / BLOCK_TOKENS;
        const uint64_t block = static_cast<uint32_t>(blockTable.GetValue(entry));
        const uint64_t token = block * BLOCK_TOKENS + key % BLOCK_TOKENS;
        DataCopy(codes, latentCache[token * LATENT], 8 * LATENT);
        DataCopy(scales, scaleCache[token], 8);
    }

    // A step lies in one cache block: KEY_TILE divides BLOCK_TOKENS.
    __aicore__ inline void LoadKeys(const Work& work, uint32_t step, uint32_t slot,
                                    const GlobalTensor<Element>& decoded) const {
        const uint32_t key = work.begin + step * KEY_TILE;
        const uint32_t keys = KeysOf(work, step);
        const uint64_t entry = work.request * MAX_BLOCKS + key / BLOCK_TOKENS;
        const uint64_t block = static_cast<uint32_t>(blockTable.GetValue(entry));
        const uint64_t token = block * BLOCK_TOKENS + key % BLOCK_TOKENS;
        WaitFlag<HardEvent::MTE1_MTE2>(static_cast<int32_t>(slot));
        LoadSlabs(Rope(slot), ropeCache[token * ROPE], keys, ROPE, ROPE, ROPE);
        CrossCoreWaitFlag(DECODED_READY);
        LoadSlabs(Values(slot), decoded, keys, VALUES, LATENT, VALUE_PITCH);
        SetFlag<HardEvent::MTE2_MTE1>(static_cast<int32_t>(slot));
    }
};

struct Results {
    GlobalTensor<float> partial;
    GlobalTensor<float> maximum;
    GlobalTensor<float> total;

    __aicore__ inline void Open(GM_ADDR partial_, GM_ADDR maximum_, GM_ADDR total_) {
        partial.SetGlobalBuffer((__gm__ float*)partial_, 1048576);
        maximum.SetGlobalBuffer((__gm__ float*)maximum_, 2048);
        total.SetGlobalBuffer((__gm__ float*)total_, 2048);
    }
};

// Everything issued later on the second pipe waits for everything issued so far on the first.
template <HardEvent event>
__aicore__ inline void Handoff() {
    SetFlag<event>(0);
    WaitFlag<event>(0);
}

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
        Handoff<HardEvent::V_MTE2>();
        Handoff<HardEvent::MTE3_V>();  // the weights in `fold` are stored
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

    // Fills the block of every lane with the lane's number.
    __aicore__ inline void SpreadOverBlocks(const LocalTensor<float>& numbers) {
        BrcbRepeatParams repeat;
        repeat.dstBlkStride = 1;
        repeat.dstRepStride = 8;
        Brcb(factorBlocks, numbers, static_cast<uint8_t>(lanes / 8), repeat);
    }

    // output = output * factor[slot] + products[lanes, VALUES]
    __aicore__ inline void Accumulate(const GlobalTensor<float>& products, uint32_t slot) {
        SetFlag<HardEvent::V_MTE2>(0);
        SetFlag<HardEvent::V_MTE2>(1);
        SpreadOverBlocks(factor[slot * VECTOR_LANES]);
        const uint8_t repeats = static_cast<uint8_t>(lanes);
        for (uint32_t column = 0; column < VALUES; column += 64) {
            const uint64_t columns = Smaller(64, VALUES - column);
            Mul(output[column], output[column], factorBlocks, columns, repeats, FactorOfLane());
        }
        DataCopyParams copy;
        copy.blockLen = VALUES / 8;
        copy.srcStride = (VALUE_PITCH - VALUES) / 8;
        copy.dstStride = 0;
        int32_t half = 0;  // of `tile`: one is loaded while the other is added
        for (uint32_t lane = 0; lane < lanes; lane += HALF_TILE / VALUES) {
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
        }
        WaitFlag<HardEvent::V_MTE2>(0);
        WaitFlag<HardEvent::V_MTE2>(1);
    }

    // Sums and statistics of the item; no division yet.
    __aicore__ inline void Store(const Work& work, const Results& results) {
        const uint64_t row = static_cast<uint64_t>(work.split) * ROWS + work.row;
        const uint32_t head = work.head + firstLane;
        const uint32_t heads = Smaller(lanes, work.lanes - firstLane);
        Handoff<HardEvent::V_MTE3>();
        DataCopy(results.partial[(row * HEADS + head) * VALUES], output, heads * VALUES);
        DataCopy(results.maximum[row * STATISTICS_PITCH + head], maximum, lanes);
        DataCopy(results.total[row * STATISTICS_PITCH + head], total, lanes);
        Handoff<HardEvent::MTE3_V>();
    }

    // Codes of this core's half of the keys of a step to `decoded[KEY_TILE, LATENT]` in GM, through
    // the memory of `tile` and `fold`.
    __aicore__ inline void Decode(const Inputs& inputs, const Work& work, uint32_t step,
                                  const GlobalTensor<Element>& decoded) {
        const LocalTensor<int8_t> codes(TPosition::VECIN, CODES, 8 * LATENT);
        const LocalTensor<half> halves(TPosition::VECCALC, HALVES, 8 * LATENT);
        const LocalTensor<float> numbers(TPosition::VECCALC, NUMBERS, 8 * LATENT);
        const LocalTensor<float> scales(TPosition::VECIN, SCALES, 8);
        const LocalTensor<float> scaleBlocks(TPosition::VECCALC, SCALE_BLOCKS, 8 * 8);
        const uint32_t first = static_cast<uint32_t>(GetSubBlockIdx()) * (KEY_TILE / 2);
        const uint32_t end = Smaller(first + KEY_TILE / 2, KeysOf(work, step));
        Handoff<HardEvent::MTE3_MTE2>();
        for (uint32_t row = first; row < end; row += 8) {
            const uint32_t key = work.begin + step * KEY_TILE + row;
            inputs.LoadCodes(work, key, codes, scales);
            Handoff<HardEvent::MTE2_V>();
            Cast(halves, codes, RoundMode::CAST_NONE, 8 * LATENT);
            Cast(numbers, halves, RoundMode::CAST_NONE, 8 * LATENT);
            BrcbRepeatParams repeat;
            repeat.dstBlkStride = 1;
            repeat.dstRepStride = 8;
            Brcb(scaleBlocks, scales, 1, repeat);
            for (uint32_t column = 0; column < LATENT; column += 64) {
                const uint64_t columns = Smaller(64, LATENT - column);
                Mul(numbers[column], numbers[column], scaleBlocks, columns, 8,
                    FactorOfLane());
            }
            const LocalTensor<Element> rounded(TPosition::VECOUT, HALVES, 8 * LATENT);
            Cast(rounded, numbers, RoundMode::CAST_RINT, 8 * LATENT);
            Handoff<HardEvent::V_MTE3>();
            DataCopy(decoded[row * LATENT], rounded, 8 * LATENT);
            Handoff<HardEvent::MTE3_MTE2>();
        }
        CrossCoreSetFlag<2, PIPE_MTE3>(DECODED_READY);
    }
};

__aicore__ inline void RunCube(const Inputs& inputs, GM_ADDR workspace) {
    const uint32_t group = static_cast<uint32_t>(GetBlockIdx());
    Exchange exchange;
    exchange.Open(workspace, group);
    CubeCore cube;
    cube.Open();
    uint32_t turn = 0;
    const uint32_t items = inputs.Items();
    for (uint32_t item = group; item < items; item += GROUPS) {
        const Work work = inputs.Find(item);
        const uint32_t steps = Pieces(work.end - work.begin, KEY_TILE);
        const uint32_t lanes = Pad16(work.lanes);
        if (steps == 0) {
            continue;
        }
        inputs.LoadQueries(work);
        for (uint32_t step = 0; step < Smaller(steps, KEY_SLOTS - 1); ++step) {
            const uint32_t slot = (turn + step) % KEY_SLOTS;
            inputs.LoadKeys(work, step, slot, exchange.Decoded(slot));
        }
        for (uint32_t step = 0; step <= steps; ++step) {
            if (step < steps) {
                const uint32_t keys = Pad16(KeysOf(work, step));
                const uint32_t held = (turn + step) % KEY_SLOTS;
                WaitFlag<HardEvent::MTE2_MTE1>(static_cast<int32_t>(held));
                WaitFlag<HardEvent::FIX_M>(cube.l0c);
                inputs.AddScores(cube, held, keys, lanes);
                cube.Store(exchange.Scores((turn + step) % 2), keys, lanes, LANES);
                CrossCoreSetFlag<2, PIPE_FIX>(SCORES_READY);
            }
            if (step > 0) {
                const uint32_t keys = Pad16(KeysOf(work, step - 1));
                const uint32_t held = (turn + step - 1) % KEY_SLOTS;
                const uint32_t slot = (turn + step - 1) % 2;
                const uint32_t ahead = step + KEY_SLOTS - 2;
                CrossCoreWaitFlag(WEIGHTS_READY);
                cube.LoadWeights(exchange.Probabilities(slot), keys, lanes);
                cube.WeighValues(exchange.Products(slot), inputs.Values(held), keys, lanes);
                SetFlag<HardEvent::MTE1_MTE2>(static_cast<int32_t>(held));
                CrossCoreSetFlag<2, PIPE_FIX>(PRODUCTS_READY);
                if (ahead < steps) {  // behind all that does not wait for codes
                    const uint32_t next = (turn + ahead) % KEY_SLOTS;
                    inputs.LoadKeys(work, ahead, next, exchange.Decoded(next));
                }
            }
        }
        SetFlag<HardEvent::MTE1_MTE2>(QUERIES);
        turn += steps;
    }
    cube.Close();
}

__aicore__ inline void RunVector(const Inputs& inputs, const Results& results, GM_ADDR workspace) {
    const uint32_t group = static_cast<uint32_t>(GetBlockIdx()) / 2;
    Exchange exchange;
    exchange.Open(workspace, group);
    VectorCore core;
    uint32_t turn = 0;
    const uint32_t items = inputs.Items();
    for (uint32_t item = group; item < items; item += GROUPS) {
        const Work work = inputs.Find(item);
        const uint32_t steps = Pieces(work.end - work.begin, KEY_TILE);
        core.Start(Pad16(work.lanes));
        for (uint32_t step = 0; step < Smaller(steps, KEY_SLOTS - 1); ++step) {
            core.Decode(inputs, work, step, exchange.Decoded((turn + step) % KEY_SLOTS));
        }
        for (uint32_t step = 0; step <= steps; ++step) {
            const uint32_t slot = (turn + step) % 2;
            const uint32_t last = slot ^ 1;
            if (step < steps) {
                const uint32_t keys = KeysOf(work, step);
                CrossCoreWaitFlag(SCORES_READY);
                if (core.lanes > 0) {
                    core.LoadScores(exchange.Scores(slot), keys);
                    core.Weigh(slot);
                    core.StoreWeights(exchange.Probabilities(slot), Pad16(keys));
                }
                CrossCoreSetFlag<2, PIPE_MTE3>(WEIGHTS_READY);
                const uint32_t ahead = step + KEY_SLOTS - 1;
                if (ahead < steps) {
                    core.Decode(inputs, work, ahead, exchange.Decoded((turn + ahead) % KEY_SLOTS));
                }
            }
            if (step > 0) {
                CrossCoreWaitFlag(PRODUCTS_READY);
                if (core.lanes > 0) {
                    core.Accumulate(exchange.Products(last), last);
                }
            }
        }
        if (core.lanes > 0) {
            core.Store(work, results);
        }
        turn += steps;
    }
}

extern "C" __global__ __aicore__ void latent_decode_attention_codes(
        GM_ADDR q_latent, GM_ADDR q_rope, GM_ADDR latent_cache, GM_ADDR scale_cache,
        GM_ADDR rope_cache, GM_ADDR block_table, GM_ADDR positions, GM_ADDR row_request,
        GM_ADDR partial, GM_ADDR maximum, GM_ADDR total, GM_ADDR sizes, GM_ADDR workspace) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_MIX_AIC_1_2);
    InitSocState();
    Inputs inputs;
    inputs.Open(q_latent, q_rope, latent_cache, scale_cache, rope_cache, block_table, positions,
                row_request, sizes);
    if ASCEND_IS_AIC {
        RunCube(inputs, workspace);
    }
    if ASCEND_IS_AIV {
        Results results;
        results.Open(partial, maximum, total);
        RunVector(inputs, results, workspace);
    }
    PipeBarrier<PIPE_ALL>();
}
