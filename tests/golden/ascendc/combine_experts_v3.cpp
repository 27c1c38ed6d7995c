// combine: sum[i, :] = sum_j weights[i, j] * y[place[i * 8 + j], :]
// + shared[i, :] + residual[i, :] for i < sizes[0] <= 512;
// rows of 7168 bf16 in 4 pieces, over 48 cores; 33,536 bytes of local memory.
#include "kernel_operator.h"
using namespace AscendC;

constexpr uint32_t BLOCKS = 48;
constexpr uint32_t COLUMNS = 7168;
constexpr uint32_t TOP_K = 8;
constexpr uint32_t PIECE = 2048;
constexpr uint32_t PIECES = 4;
constexpr uint32_t ELEMENT_BYTES = 2;

// Copies `count` pieces of `bytes`; behind each piece the source skips `sourceGap` bytes and the
// target `targetGap` blocks of 32 bytes. Every piece starts a block, filled up with zeros.
template <typename T>
__aicore__ inline void CopyIn(const LocalTensor<T>& target, const GlobalTensor<T>& source,
                              uint32_t count, uint32_t bytes,
                              uint32_t sourceGap, uint32_t targetGap) {
    DataCopyExtParams copy;
    copy.blockCount = static_cast<uint16_t>(count);
    copy.blockLen = bytes;
    copy.srcStride = sourceGap;
    copy.dstStride = targetGap;
    DataCopyPadExtParams<T> padding;
    padding.isPad = bytes % 32 != 0;
    padding.rightPadding = static_cast<uint8_t>((32 - bytes % 32) % 32 / sizeof(T));
    DataCopyPad(target, source, copy, padding);
}

// The way back: the source skips `sourceGap` blocks of 32 bytes, the target `targetGap` bytes.
template <typename T>
__aicore__ inline void CopyOut(const GlobalTensor<T>& target, const LocalTensor<T>& source,
                               uint32_t count, uint32_t bytes,
                               uint32_t sourceGap, uint32_t targetGap) {
    DataCopyExtParams copy;
    copy.blockCount = static_cast<uint16_t>(count);
    copy.blockLen = bytes;
    copy.srcStride = sourceGap;
    copy.dstStride = targetGap;
    DataCopyPad(target, source, copy);
}

extern "C" __global__ __aicore__ void combine(GM_ADDR y, GM_ADDR place, GM_ADDR weights,
                                              GM_ADDR shared, GM_ADDR residual, GM_ADDR sum,
                                              GM_ADDR sizes) {
    KERNEL_TASK_TYPE_DEFAULT(KERNEL_TYPE_AIV_ONLY);
    GlobalTensor<bfloat16_t> yGm;
    yGm.SetGlobalBuffer((__gm__ bfloat16_t*)y, 29360128);
    GlobalTensor<int32_t> placeGm;
    placeGm.SetGlobalBuffer((__gm__ int32_t*)place, 4096);
    GlobalTensor<float> weightsGm;
    weightsGm.SetGlobalBuffer((__gm__ float*)weights, 4096);
    GlobalTensor<bfloat16_t> sharedGm;
    sharedGm.SetGlobalBuffer((__gm__ bfloat16_t*)shared, 3670016);
    GlobalTensor<bfloat16_t> residualGm;
    residualGm.SetGlobalBuffer((__gm__ bfloat16_t*)residual, 3670016);
    GlobalTensor<bfloat16_t> sumGm;
    sumGm.SetGlobalBuffer((__gm__ bfloat16_t*)sum, 3670016);
    GlobalTensor<int32_t> sizesGm;
    sizesGm.SetGlobalBuffer((__gm__ int32_t*)sizes, 8);
    const uint32_t rows = static_cast<uint32_t>(sizesGm.GetValue(0));
    const uint32_t items = rows * PIECES;
    const uint32_t share = (items + BLOCKS - 1) / BLOCKS;
    const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;
    if (first >= items) {
        return;
    }
    const uint32_t last = first + share < items ? first + share : items;
    TPipe pipe;
    TQue<TPosition::VECIN, 1> placeQueue;
    pipe.InitBuffer(placeQueue, 1, 384);
    TQue<TPosition::VECIN, 1> weightQueue;
    pipe.InitBuffer(weightQueue, 1, 384);
    TQue<TPosition::VECIN, 1> termQueue;
    pipe.InitBuffer(termQueue, 2, 4096);
    TBuf<TPosition::VECCALC> termBuffer;
    pipe.InitBuffer(termBuffer, 8192);
    TBuf<TPosition::VECCALC> sumBuffer;
    pipe.InitBuffer(sumBuffer, 8192);
    TQue<TPosition::VECOUT, 1> sumQueue;
    pipe.InitBuffer(sumQueue, 2, 4096);
    const uint32_t firstRow = first / PIECES;
    const uint32_t tableBytes = ((last - 1) / PIECES + 1 - firstRow) * TOP_K * 4;
    LocalTensor<int32_t> placeLocal = placeQueue.AllocTensor<int32_t>();
    CopyIn(placeLocal, placeGm[firstRow * TOP_K], 1, tableBytes, 0, 0);
    placeQueue.EnQue(placeLocal);
    placeLocal = placeQueue.DeQue<int32_t>();
    LocalTensor<float> weightsLocal = weightQueue.AllocTensor<float>();
    CopyIn(weightsLocal, weightsGm[firstRow * TOP_K], 1, tableBytes, 0, 0);
    weightQueue.EnQue(weightsLocal);
    weightsLocal = weightQueue.DeQue<float>();
    LocalTensor<float> total = sumBuffer.Get<float>();
    LocalTensor<float> term = termBuffer.Get<float>();
    for (uint32_t item = first; item < last; ++item) {
        const uint32_t row = item / PIECES;
        const uint32_t column = item % PIECES * PIECE;
        const uint32_t count = column + PIECE < COLUMNS ? PIECE : COLUMNS - column;
        const uint64_t start = static_cast<uint64_t>(row) * COLUMNS + column;
        LocalTensor<bfloat16_t> sumLocal = sumQueue.AllocTensor<bfloat16_t>();
        Duplicate(total, 0.0f, static_cast<int32_t>(count));
        for (uint32_t j = 0; j < TOP_K; ++j) {
            const uint32_t pair = (row - firstRow) * TOP_K + j;
            const uint64_t source =
                static_cast<uint64_t>(placeLocal.GetValue(pair)) * COLUMNS + column;
            const float weight = weightsLocal.GetValue(pair);
            LocalTensor<bfloat16_t> termLocal = termQueue.AllocTensor<bfloat16_t>();
            CopyIn(termLocal, yGm[source], 1, count * ELEMENT_BYTES, 0, 0);
            termQueue.EnQue(termLocal);
            termLocal = termQueue.DeQue<bfloat16_t>();
            Cast(term, termLocal, RoundMode::CAST_NONE, count);
            Muls(term, term, weight, static_cast<int32_t>(count));
            termQueue.FreeTensor(termLocal);
            Add(total, total, term, static_cast<int32_t>(count));
        }
        LocalTensor<bfloat16_t> sharedLocal = termQueue.AllocTensor<bfloat16_t>();
        CopyIn(sharedLocal, sharedGm[start], 1, count * ELEMENT_BYTES, 0, 0);
        termQueue.EnQue(sharedLocal);
        sharedLocal = termQueue.DeQue<bfloat16_t>();
        Cast(term, sharedLocal, RoundMode::CAST_NONE, count);
        Add(total, total, term, static_cast<int32_t>(count));
        termQueue.FreeTensor(sharedLocal);
        LocalTensor<bfloat16_t> residualLocal = termQueue.AllocTensor<bfloat16_t>();
        CopyIn(residualLocal, residualGm[start], 1, count * ELEMENT_BYTES, 0, 0);
        termQueue.EnQue(residualLocal);
        residualLocal = termQueue.DeQue<bfloat16_t>();
        Cast(term, residualLocal, RoundMode::CAST_NONE, count);
        Add(total, total, term, static_cast<int32_t>(count));
        termQueue.FreeTensor(residualLocal);
        Cast(sumLocal, total, RoundMode::CAST_RINT, count);
        sumQueue.EnQue(sumLocal);
        sumLocal = sumQueue.DeQue<bfloat16_t>();
        CopyOut(sumGm[start], sumLocal, 1, count * ELEMENT_BYTES, 0, 0);
        sumQueue.FreeTensor(sumLocal);
    }
    placeQueue.FreeTensor(placeLocal);
    weightQueue.FreeTensor(weightsLocal);
}
