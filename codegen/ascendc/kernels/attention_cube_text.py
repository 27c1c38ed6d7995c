"""The text of the cube core's part of a flash-attention step.

L1 holds every tile as slabs of 16 rows, ``[rows / 16, columns / K0, 16, K0]``. One copy of a
latent block then serves as keys (left operand, not transposed) and as values (right operand,
transposed): ``LoadDataWithTranspose`` needs the two 16 x 8 fractals of a float square side by side,
which is the order Nn -> Zn, Zz -> Zz of the page "constraints of matrix input copies".

Events on a cube core: every reader says when a buffer is free, the next writer waits for it. All
"free" flags are raised once by ``Open`` and taken back by ``Close``.
"""

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernels.attention_tiles import AttentionTiles
from ascendfx.ir.tensor_type import DType

_LOAD_SLABS = """\
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
"""

_LOAD_PLAIN = """\
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
"""

_LOAD_TURNED_16 = """\
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
"""

_LOAD_TURNED_32 = """\
// Probabilities [keys, lanes] to L0A as [lanes, keys], in squares of two fractals.
__aicore__ inline void LoadLeftTurned(const LocalTensor<Element>& left,
                                      const LocalTensor<Element>& slabs, uint32_t keys,
                                      uint32_t lanes) {
    LoadData2dTransposeParams load;
    load.repeatTimes = keys / 16;
    load.srcStride = lanes / 16;
    load.dstGap = 1;
    load.dstFracGap = 0;
    for (uint32_t lane = 0; lane < lanes; lane += 16) {
        LoadDataWithTranspose(left[lane * keys], slabs[lane * 16], load);
    }
}

// Columns [column, column + width) of values [keys, columns] to L0B as they are multiplied.
__aicore__ inline void LoadRightTurned(const LocalTensor<Element>& right,
                                       const LocalTensor<Element>& slabs, uint32_t keys,
                                       uint32_t pitch, uint32_t column, uint32_t width) {
    LoadData2dTransposeParams load;
    load.repeatTimes = width / 16;
    load.srcStride = 1;
    load.dstGap = 0;
    load.dstFracGap = width / 16 - 1;
    for (uint32_t key = 0; key < keys; key += 16) {
        LoadDataWithTranspose(right[key * width], slabs[key * pitch + column * 16], load);
    }
}
"""

_PRODUCT = """\
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
"""

_CUBE_CORE = """\
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
"""


def write_cube_core(out: CppWriter, tiles: AttentionTiles) -> None:
    """Write the loads, the product and ``struct CubeCore``."""
    turned = _LOAD_TURNED_32 if tiles.dtype is DType.F32 else _LOAD_TURNED_16
    for text in (_LOAD_SLABS, _LOAD_PLAIN, turned, _PRODUCT, _CUBE_CORE):
        out.lines(text.splitlines())
        out.line()


def write_load_values(out: CppWriter, tiles: AttentionTiles, slabs: str, gm: str, row: str) -> None:
    """Write the copy of a value tile; half a square of float is completed with column 0.

    Args:
        out: Text so far.
        tiles: Tile sizes.
        slabs: L1 tensor.
        gm: GM tensor at the first value.
        row: Elements from one value to the next.
    """
    out.line(f"LoadSlabs({slabs}, {gm}, keys, VALUES, {row}, VALUE_PITCH);")
    if tiles.value_pitch != tiles.value_width:
        out.line(f"LoadSlabs({slabs}[VALUES * 16], {gm}, keys, K0, {row}, VALUE_PITCH);")
