// Parameter structures of the cube instructions, with the documented names and widths.
//
// Names, order of constructor arguments and defaults: asc-devkit 9.1, pages of LoadData,
// LoadDataWithTranspose, Mmad, Fixpipe and DataCopy (ND2NZ). Integer fields remember a value that
// does not fit their width, which the device would cut silently, until the instruction reports it.
#ifndef ASCENDFX_EMULATOR_CUBE_PARAMS_H
#define ASCENDFX_EMULATOR_CUBE_PARAMS_H

#include "instruction.h"

// How Fixpipe converts (page "quantisation on the way out"); a global name on the device, too.
enum QuantMode_t {
    NoQuant,
    F322F16,
    F322BF16,
    DEQF16,
    VDEQF16,
    QF322B8_PRE,
    VQF322B8_PRE,
    REQ8,
    VREQ8,
};

namespace emulator {

// An integer field of `Word`'s width that reads like the device's and knows the value given.
template <typename Word>
class Field {
  public:
    template <typename V, typename = std::enable_if_t<std::is_integral_v<V> || std::is_enum_v<V>>>
    constexpr Field(V value) : given_(static_cast<int64_t>(value)) {}
    template <typename Other>
    constexpr Field(Field<Other> other) : given_(other.given()) {}

    constexpr operator Word() const { return static_cast<Word>(given_); }
    constexpr int64_t given() const { return given_; }

    Field& operator+=(int64_t value) { return *this = Field(static_cast<Word>(*this) + value); }
    Field& operator-=(int64_t value) { return *this = Field(static_cast<Word>(*this) - value); }

  private:
    int64_t given_;
};

// A field without a default on the device: reading it before it was set is a fault.
class UnsetField {
  public:
    UnsetField() = default;
    constexpr UnsetField(uint64_t value) : value_(value), set_(true) {}

    constexpr operator uint64_t() const { return value_; }
    constexpr bool isSet() const { return set_; }

  private:
    uint64_t value_ = 0;
    bool set_ = false;
};

// Faults unless `field` lies in low..high; `name` is "Struct.field".
struct FieldCheck {
    Site site;
    pipe_t pipe;

    void operator()(const char* name, int64_t given, int64_t low, int64_t high) const {
        if (given >= low && given <= high) return;
        Fault(site, pipe, "arguments", 0, "%s = %lld is outside %lld..%lld", name,
              static_cast<long long>(given), static_cast<long long>(low),
              static_cast<long long>(high));
    }
};

}  // namespace emulator

namespace AscendC {

using U8Field = emulator::Field<uint8_t>;
using U16Field = emulator::Field<uint16_t>;
using U32Field = emulator::Field<uint32_t>;
using ::QuantMode_t;

struct Nd2NzParams {
    Nd2NzParams() = default;
    Nd2NzParams(U16Field ndNum, U16Field nValue, U16Field dValue, U16Field srcNdMatrixStride,
                U16Field srcDValue, U16Field dstNzC0Stride, U16Field dstNzNStride,
                U16Field dstNzMatrixStride)
        : ndNum(ndNum), nValue(nValue), dValue(dValue), srcNdMatrixStride(srcNdMatrixStride),
          srcDValue(srcDValue), dstNzC0Stride(dstNzC0Stride), dstNzNStride(dstNzNStride),
          dstNzMatrixStride(dstNzMatrixStride) {}

    U16Field ndNum = 0;
    U16Field nValue = 0;
    U16Field dValue = 0;
    U16Field srcNdMatrixStride = 0;
    U16Field srcDValue = 0;
    U16Field dstNzC0Stride = 0;
    U16Field dstNzNStride = 0;
    U16Field dstNzMatrixStride = 0;
};

struct LoadData2DParams {
    LoadData2DParams() = default;
    LoadData2DParams(U16Field startIndex, U8Field repeatTimes, U16Field srcStride, U8Field sid,
                     U16Field dstGap, bool ifTranspose, U8Field addrMode)
        : startIndex(startIndex), dstGap(dstGap), srcStride(srcStride), ifTranspose(ifTranspose),
          repeatTimes(repeatTimes), sid(sid), addrMode(addrMode) {}

    U16Field startIndex = 0;
    U16Field dstGap = 0;
    U16Field srcStride = 0;
    bool ifTranspose = false;
    U8Field repeatTimes = 0;
    U8Field sid = 0;
    U8Field addrMode = 0;
};
using LoadData2dParams = LoadData2DParams;

struct LoadData2dTransposeParams {
    LoadData2dTransposeParams() = default;
    LoadData2dTransposeParams(U16Field startIndex, U8Field repeatTimes, U16Field srcStride,
                              U16Field dstGap, U16Field dstFracGap, U8Field addrMode = 0)
        : startIndex(startIndex), repeatTimes(repeatTimes), srcStride(srcStride), dstGap(dstGap),
          dstFracGap(dstFracGap), addrMode(addrMode) {}

    U16Field startIndex = 0;
    U8Field repeatTimes = 0;
    U16Field srcStride = 0;
    U16Field dstGap = 0;
    U16Field dstFracGap = 0;
    U8Field addrMode = 0;
};

struct IsResetLoad3dConfig {
    bool isSetFMatrix = true;
    bool isSetPadding = true;
};
inline constexpr IsResetLoad3dConfig IS_RESER_LOAD3D_DEFAULT_CONFIG = {true, true};

template <typename T>
struct LoadData3DParamsV2 {
    uint8_t padList[4] = {0, 0, 0, 0};
    U16Field l1H = 0;
    U16Field l1W = 0;
    U16Field channelSize = 0;
    U16Field kExtension = 0;
    U16Field mExtension = 0;
    U16Field kStartPt = 0;
    U16Field mStartPt = 0;
    U8Field strideW = 1;
    U8Field strideH = 1;
    U8Field filterW = 1;
    U8Field filterH = 1;
    U8Field dilationFilterW = 1;
    U8Field dilationFilterH = 1;
    bool enTranspose = false;
    bool enSmallK = false;
    T padValue = T(0);
    bool filterSizeW = false;
    bool filterSizeH = false;
    bool fMatrixCtrl = false;
};

template <typename T>
struct InitConstValueParams {
    InitConstValueParams() = default;
    InitConstValueParams(U16Field repeatTimes, U16Field blockNum, U16Field dstGap, T initValue)
        : repeatTimes(repeatTimes), blockNum(blockNum), dstGap(dstGap), initValue(initValue) {}

    U16Field repeatTimes = 0;
    U16Field blockNum = 0;
    U16Field dstGap = 0;
    T initValue = T(0);
};

struct MmadParams {
    MmadParams() = default;
    MmadParams(U16Field m, U16Field n, U16Field k, U8Field unitFlag, bool cmatrixSource,
               bool cmatrixInitVal)
        : m(m), n(n), k(k), unitFlag(unitFlag), cmatrixSource(cmatrixSource),
          cmatrixInitVal(cmatrixInitVal) {}

    U16Field m = 0;
    U16Field n = 0;
    U16Field k = 0;
    bool isBias = false;  // abandoned (Mmad page)
    int32_t fmOffset = 0;
    bool enSsparse = false;
    bool enWinogradA = false;
    bool enWinogradB = false;
    U8Field unitFlag = 0;
    bool kDirectionAlign = false;
    bool cmatrixSource = false;
    bool cmatrixInitVal = true;
};

enum class HF32Mode : uint8_t { DISABLE = 0, ENABLE = 1 };

enum class CO2Layout : uint8_t { NZ = 0, ROW_MAJOR, COLUMN_MAJOR };

struct FixpipeConfig {
    CO2Layout format;
};
inline constexpr FixpipeConfig CFG_NZ = {CO2Layout::NZ};
inline constexpr FixpipeConfig CFG_ROW_MAJOR = {CO2Layout::ROW_MAJOR};

struct FixpipeParamsV220 {
    FixpipeParamsV220() = default;
    FixpipeParamsV220(U16Field nSize, U16Field mSize, U16Field srcStride, U32Field dstStride,
                      bool reluEn)
        : nSize(nSize), mSize(mSize), srcStride(srcStride), dstStride(dstStride), reluEn(reluEn) {}

    U16Field nSize = 0;
    U16Field mSize = 0;
    U16Field srcStride = 0;
    U32Field dstStride = 0;
    QuantMode_t quantPre = QuantMode_t::NoQuant;
    emulator::UnsetField deqScalar;
    U16Field ndNum = 1;
    U16Field srcNdStride = 0;
    U16Field dstNdStride = 0;
    bool reluEn = false;
    U8Field unitFlag = 0;
    bool isChannelSplit = false;
};

}  // namespace AscendC

#endif
