// matmul_decode_i4: y[b, r, :] = x[b, r, :] * W[b]^T.
// Batch 1, rows = 2 * sizes[0] <= 32, n 7,168, k 1,024; i4x2 to i32.
// Sums in i32; W stored as nz.
// Tile: 32 x 208 outputs, k in steps of 256 (L1) and 128 (L0), double buffered; x stays in L1.
// Local bytes: L1 139,264, L0A 8,192, L0B 53,248, L0C 53,248.
// Split: tile t of [b, m, n] (n fastest) goes to block t % 20.
#include "kernel_operator.h"
using namespace AscendC;

// Four-bit codes, two in a byte: terms are bytes, which Mmad alone takes apart.
using In = int8_t;
using Out = int32_t;
constexpr uint32_t N = 7168;
constexpr uint32_t K = 1024;
constexpr uint32_t K0 = 32;
constexpr uint32_t TILE_M = 32;
constexpr uint32_t TILE_N = 208;
constexpr uint32_t L1_K = 256;
constexpr uint32_t L0_K = 128;
// Elements from one row (X_ROW, Y_ROW), column (W_N) or term (W_K) to the next.
constexpr uint64_t X_ROW = 1024;
constexpr uint64_t W_N = 32;
constexpr uint64_t W_K = 7168;
constexpr uint64_t Y_ROW = 7168;

__aicore__ inline uint32_t Pad16(uint32_t size) {
    return (size + 15) / 16 * 16;
}

__aicore__ inline uint32_t Smaller(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

struct CubeTile {
    TQue<TPosition::A1, 1> xL1;
    TQue<TPosition::B1, 1> wL1;
    TQue<TPosition::A2, 1> xL0;
    TQue<TPosition::B2, 1> wL0;
    TQue<TPosition::CO1, 1> yL0;
    GlobalTensor<In> xGm;
    GlobalTensor<In> wGm;
    GlobalTensor<Out> yGm;
    uint32_t rows;  // of this tile
    uint32_t columns;

    __aicore__ inline void Init(TPipe& pipe, GM_ADDR x, GM_ADDR w, GM_ADDR y) {
        xGm.SetGlobalBuffer((__gm__ In*)x, 32768);
        wGm.SetGlobalBuffer((__gm__ In*)w, 7340032);
        yGm.SetGlobalBuffer((__gm__ Out*)y, 229376);
        pipe.InitBuffer(xL1, 1, TILE_M * ((K + K0 - 1) / K0 * K0) * sizeof(In));
        pipe.InitBuffer(wL1, 2, TILE_N * L1_K * sizeof(In));
        pipe.InitBuffer(xL0, 2, TILE_M * L0_K * sizeof(In));
        pipe.InitBuffer(wL0, 2, TILE_N * L0_K * sizeof(In));
        pipe.InitBuffer(yL0, 2, TILE_M * TILE_N * sizeof(int32_t));
    }

    // Terms of x to L1. A single row is stored twice: Mmad takes m = 1 for a vector.
    __aicore__ inline void CopyX(uint64_t from, uint32_t terms) {
        LocalTensor<In> x = xL1.AllocTensor<In>();
        Nd2NzParams p;
        p.ndNum = rows == 1 ? 2 : 1;
        p.nValue = rows;
        p.dValue = terms;
        p.srcNdMatrixStride = 0;
        p.srcDValue = X_ROW;
        p.dstNzC0Stride = Pad16(rows);
        p.dstNzNStride = 1;
        p.dstNzMatrixStride = K0;
        DataCopy(x, xGm[from], p);
        xL1.EnQue(x);
    }

    // Terms of W to L1.
    __aicore__ inline void CopyW(uint64_t from, uint32_t terms) {
        LocalTensor<In> w = wL1.AllocTensor<In>();
        DataCopyParams p;
        p.blockCount = (terms + K0 - 1) / K0;
        p.blockLen = Pad16(columns);
        p.srcStride = W_K - Pad16(columns);
        p.dstStride = 0;
        DataCopy(w, wGm[from], p);
        wL1.EnQue(w);
    }

    // Terms from k on of x in L1 to L0A, 16 rows at a time.
    __aicore__ inline void LoadX(const LocalTensor<In>& x, uint32_t k, uint32_t terms) {
        LocalTensor<In> a = xL0.AllocTensor<In>();
        const uint32_t fractals = (terms + K0 - 1) / K0;
        LoadData2DParams p;
        p.repeatTimes = fractals;
        p.srcStride = Pad16(rows) / 16;
        for (uint32_t row = 0; row < rows; row += 16) {
            LoadData(a[row * fractals * K0], x[k * Pad16(rows) + row * K0], p);
        }
        xL0.EnQue(a);
    }

    // Terms from k on of W in L1 to L0B.
    __aicore__ inline void LoadW(const LocalTensor<In>& w, uint32_t k, uint32_t terms) {
        LocalTensor<In> b = wL0.AllocTensor<In>();
        LoadData2DParams p;
        p.repeatTimes = (terms + K0 - 1) / K0 * (Pad16(columns) / 16);
        p.srcStride = 1;
        LoadData(b, w[k * Pad16(columns)], p);
        wL0.EnQue(b);
    }

    // y += x * W over the terms in L0; small products need the barrier (Mmad page).
    __aicore__ inline void Multiply(const LocalTensor<int32_t>& y, uint32_t terms, bool first) {
        LocalTensor<In> a = xL0.DeQue<In>();
        LocalTensor<In> b = wL0.DeQue<In>();
        MmadParams p;
        p.m = rows == 1 ? 2 : rows;
        p.n = columns;
        p.k = 2 * terms;
        p.cmatrixInitVal = first;
        Mmad(y, a.ReinterpretCast<int4b_t>(), b.ReinterpretCast<int4b_t>(), p);
        if ((rows / 16) * (columns / 16) < 10) {
            PipeBarrier<PIPE_M>();
        }
        xL0.FreeTensor(a);
        wL0.FreeTensor(b);
    }

    // The sums to y, as they are.
    __aicore__ inline void Store(uint64_t to) {
        LocalTensor<int32_t> y = yL0.DeQue<int32_t>();
        FixpipeParamsV220 p;
        p.nSize = columns;
        p.mSize = rows;
        p.srcStride = Pad16(rows);
        p.dstStride = Y_ROW;
        p.quantPre = QuantMode_t::NoQuant;
        p.deqScalar = 0;
        Fixpipe<Out, int32_t, CFG_ROW_MAJOR>(yGm[to], y, p);
        yL0.FreeTensor(y);
    }

    // One tile of y; offsets of its first row of x, first column of W, first element.
    __aicore__ inline void Run(const LocalTensor<In>& x, uint64_t wFrom, uint64_t yTo) {
        LocalTensor<int32_t> y = yL0.AllocTensor<int32_t>();
        for (uint32_t k = 0; k < K; k += L1_K) {
            const uint32_t depth = Smaller(L1_K, K - k);
            CopyW(wFrom + k * W_K, depth);
            LocalTensor<In> w = wL1.DeQue<In>();
            for (uint32_t part = 0; part < depth; part += L0_K) {
                const uint32_t terms = Smaller(L0_K, depth - part);
                LoadX(x, k + part, terms);
                LoadW(w, part, terms);
                Multiply(y, terms, k + part == 0);
            }
            wL1.FreeTensor(w);
        }
        yL0.EnQue(y);
        Store(yTo);
    }
};

extern "C" __global__ __aicore__ void matmul_decode_i4(GM_ADDR x, GM_ADDR w, GM_ADDR y,
                                                       GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIC_ONLY);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = 2 * sizesGm.GetValue(0);
    const uint32_t nTiles = (N + TILE_N - 1) / TILE_N;
    const uint32_t mTiles = (rows + TILE_M - 1) / TILE_M;
    const uint32_t tiles = mTiles * nTiles;
    const uint32_t block = GetBlockIdx();
    if (block >= tiles) {
        return;
    }
    TPipe pipe;
    CubeTile cube;
    cube.Init(pipe, x, w, y);
    cube.rows = rows;
    cube.CopyX(0, K);
    LocalTensor<In> kept = cube.xL1.DeQue<In>();
    for (uint32_t t = block; t < tiles; t += 20) {
        const uint64_t n = t % nTiles * TILE_N;
        const uint64_t m = t / nTiles % mTiles * TILE_M;
        cube.rows = Smaller(TILE_M, rows - m);
        cube.columns = Smaller(TILE_N, N - n);
        cube.Run(kept, n * W_N, m * Y_ROW + n);
    }
    cube.xL1.FreeTensor(kept);
}
