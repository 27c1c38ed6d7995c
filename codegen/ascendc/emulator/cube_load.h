// Loads of 512-byte fractals into L0A and L0B: LoadData (2D, 3D) and LoadDataWithTranspose.
#ifndef ASCENDFX_EMULATOR_CUBE_LOAD_H
#define ASCENDFX_EMULATOR_CUBE_LOAD_H

#include "cube_params.h"
#include "tensor.h"

namespace emulator {

void LoadFractals(const LocalOperand& dst, const LocalOperand& src, uint32_t elementBytes,
                  const AscendC::LoadData2DParams& params, Site site);
void LoadFractals(const LocalOperand& dst, const GlobalOperand& src, uint32_t elementBytes,
                  const AscendC::LoadData2DParams& params, Site site);
void LoadSquares(const LocalOperand& dst, const LocalOperand& src, uint32_t elementBytes,
                 const AscendC::LoadData2dTransposeParams& params, Site site);

// LoadData3DParamsV2 without its type: the part that works on matrices.
struct MatrixLoad {
    int64_t l1H, l1W, channelSize;
    int64_t kExtension, mExtension, kStartPt, mStartPt;
    bool isPlain;      // filter, stride, dilation 1, no padding, none of the special modes
    bool enTranspose;
};
void LoadMatrix(const LocalOperand& dst, const LocalOperand& src, uint32_t elementBytes,
                const MatrixLoad& load, Site site);

}  // namespace emulator

namespace AscendC {

template <typename T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const LoadData2DParams& loadDataParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, uint8_t, int8_t, uint16_t, int16_t, half, bfloat16_t,
                                    uint32_t, int32_t, float, int4b_t>,
                  "LoadData 2D: int4b_t, 8-, 16- and 32-bit types (LoadData page)");
    emulator::LoadFractals(dst, src, sizeof(T), loadDataParams, site);
}

template <typename T>
void LoadData(const LocalTensor<T>& dst, const GlobalTensor<T>& src,
              const LoadData2DParams& loadDataParams, emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, uint8_t, int8_t, uint16_t, int16_t, half, bfloat16_t,
                                    uint32_t, int32_t, float>,
                  "LoadData 2D from GM: 8-, 16- and 32-bit types (LoadData page: int4b_t is loaded "
                  "from L1 only)");
    emulator::LoadFractals(dst, src, sizeof(T), loadDataParams, site);
}

template <typename T>
void LoadDataWithTranspose(const LocalTensor<T>& dst, const LocalTensor<T>& src,
                           const LoadData2dTransposeParams& loadDataParams,
                           emulator::Site site = emulator::Site::Here()) {
    static_assert(emulator::IsOneOf<T, uint8_t, int8_t, half, bfloat16_t, uint32_t, int32_t, float>,
                  "LoadDataWithTranspose: int8, uint8, half, bfloat16 and 32-bit types (int4b_t is "
                  "not emulated)");
    emulator::LoadSquares(dst, src, sizeof(T), loadDataParams, site);
}

template <typename T, const IsResetLoad3dConfig& defaultConfig = IS_RESER_LOAD3D_DEFAULT_CONFIG,
          typename U = T>
void LoadData(const LocalTensor<T>& dst, const LocalTensor<T>& src,
              const LoadData3DParamsV2<U>& loadDataParams,
              emulator::Site site = emulator::Site::Here()) {
    static_assert(std::is_same_v<T, U>, "LoadData3DParamsV2<T> has the tensors' type");
    static_assert(defaultConfig.isSetFMatrix && defaultConfig.isSetPadding,
                  "LoadData 3D with SetFmatrix or SetLoadDataPaddingValue is not emulated");
    static_assert(emulator::IsOneOf<T, int8_t, uint8_t, half, bfloat16_t, int32_t, uint32_t, float>,
                  "LoadData 3D: int8, uint8, half, bfloat16 and 32-bit types");
    const LoadData3DParamsV2<U>& p = loadDataParams;
    const bool isPlain = p.padList[0] == 0 && p.padList[1] == 0 && p.padList[2] == 0 &&
                         p.padList[3] == 0 && p.strideW == 1 && p.strideH == 1 &&
                         p.filterW == 1 && p.filterH == 1 && p.dilationFilterW == 1 &&
                         p.dilationFilterH == 1 && !p.enSmallK && !p.filterSizeW &&
                         !p.filterSizeH && !p.fMatrixCtrl;
    emulator::LoadMatrix(dst, src, sizeof(T),
                         {p.l1H.given(), p.l1W.given(), p.channelSize.given(),
                          p.kExtension.given(), p.mExtension.given(), p.kStartPt.given(),
                          p.mStartPt.given(), isPlain, p.enTranspose},
                         site);
}

}  // namespace AscendC

#endif
