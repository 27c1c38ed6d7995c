// TPipe, TQue, TBuf: handles of buffers and queues that live in the running core.
// Source: asc-devkit 9.1, API/资源管理.
#ifndef ASCENDFX_EMULATOR_QUEUE_H
#define ASCENDFX_EMULATOR_QUEUE_H

#include "sync.h"

namespace emulator {

using AscendC::TPosition;

constexpr uint16_t kNoQueue = 0xffff;

// Events of a queue between two positions, as HardEvent values: tensor filled, tensor free again.
struct QueueEvents {
    uint8_t full, free;
};

constexpr QueueEvents EventsBetween(TPosition source, TPosition target) {
    const auto events = [](uint32_t producer, uint32_t consumer) {
        return QueueEvents{static_cast<uint8_t>(producer << 4 | consumer),
                           static_cast<uint8_t>(consumer << 4 | producer)};
    };
    if (source == TPosition::GM && SpaceOf(target) == Space::UB) return events(PIPE_MTE2, PIPE_V);
    if (source == TPosition::GM) return events(PIPE_MTE2, PIPE_MTE1);
    if (source == TPosition::VECIN) return events(PIPE_MTE2, PIPE_MTE3);
    if (SpaceOf(source) == Space::UB) return events(PIPE_V, PIPE_MTE3);
    if (SpaceOf(source) == Space::L1) return events(PIPE_MTE1, PIPE_M);
    return events(PIPE_M, PIPE_FIX);
}

// Source and target of TQue<position>.
constexpr TPosition SourceOf(TPosition position) {
    switch (position) {
        case TPosition::VECOUT: return TPosition::VECOUT;
        case TPosition::A2: return TPosition::A1;
        case TPosition::B2: return TPosition::B1;
        case TPosition::C2: return TPosition::C1;
        case TPosition::CO1: return TPosition::CO1;
        default: return TPosition::GM;
    }
}
constexpr TPosition TargetOf(TPosition position) {
    return position == TPosition::VECOUT || position == TPosition::CO1 ? TPosition::GM : position;
}

void OpenPipe(Site site);
void ResetPipe(Site site);
uint16_t InitQueue(TPosition position, QueueEvents events, uint32_t depth, uint32_t count,
                   uint32_t bytes, Site site);
LocalOperand InitScratch(TPosition position, uint32_t bytes, Site site);
LocalOperand AllocTensor(uint16_t queue, Site site);
void FreeTensor(uint16_t queue, const LocalOperand& tensor, Site site);
void EnQue(uint16_t queue, const LocalOperand& tensor, uint8_t fullEvent, Site site);
LocalOperand DeQue(uint16_t queue, Site site);
uint32_t QueuedTensors(uint16_t queue, Site site);
bool HasIdleBuffer(uint16_t queue, Site site);
void FreeAllEvents(uint16_t queue, Site site);
[[noreturn]] void ScratchFault(const LocalOperand& scratch, uint64_t bytes, Site site);

}  // namespace emulator

namespace AscendC {

template <TPosition src, TPosition dst, int32_t depth, auto mask = 0>
class TQueBind {
  public:
    static constexpr TPosition kPosition = src == TPosition::GM ? dst
                                           : dst == TPosition::GM ? src
                                           : emulator::SpaceOf(src) == emulator::Space::UB ? src
                                                                                            : dst;
    static constexpr emulator::QueueEvents kEvents = emulator::EventsBetween(src, dst);

    template <typename T>
    LocalTensor<T> AllocTensor(emulator::Site site = emulator::Site::Here()) {
        return LocalTensor<T>(emulator::AllocTensor(index_, site));
    }
    template <typename T>
    void FreeTensor(LocalTensor<T>& tensor, emulator::Site site = emulator::Site::Here()) {
        emulator::FreeTensor(index_, tensor, site);
    }
    template <typename T>
    bool EnQue(const LocalTensor<T>& tensor, emulator::Site site = emulator::Site::Here()) {
        emulator::EnQue(index_, tensor, kEvents.full, site);
        return true;
    }
    template <TPosition srcUserPos, TPosition dstUserPos, typename T>
    bool EnQue(const LocalTensor<T>& tensor, emulator::Site site = emulator::Site::Here()) {
        emulator::EnQue(index_, tensor, emulator::EventsBetween(srcUserPos, dstUserPos).full,
                        site);
        return true;
    }
    template <typename T>
    LocalTensor<T> DeQue(emulator::Site site = emulator::Site::Here()) {
        return LocalTensor<T>(emulator::DeQue(index_, site));
    }
    template <TPosition srcUserPos, TPosition dstUserPos, typename T>
    LocalTensor<T> DeQue(emulator::Site site = emulator::Site::Here()) {
        return LocalTensor<T>(emulator::DeQue(index_, site));
    }
    bool VacantInQue(emulator::Site site = emulator::Site::Here()) {
        return emulator::QueuedTensors(index_, site) < static_cast<uint32_t>(depth);
    }
    bool HasTensorInQue(emulator::Site site = emulator::Site::Here()) {
        return emulator::QueuedTensors(index_, site) != 0;
    }
    int32_t GetTensorCountInQue(emulator::Site site = emulator::Site::Here()) {
        return static_cast<int32_t>(emulator::QueuedTensors(index_, site));
    }
    bool HasIdleBuffer(emulator::Site site = emulator::Site::Here()) {
        return emulator::HasIdleBuffer(index_, site);
    }
    void FreeAllEvent(emulator::Site site = emulator::Site::Here()) {
        emulator::FreeAllEvents(index_, site);
    }

  private:
    friend class TPipe;
    uint16_t index_ = emulator::kNoQueue;
};

template <TPosition pos, int32_t depth, auto mask = 0>
class TQue : public TQueBind<emulator::SourceOf(pos), emulator::TargetOf(pos), depth, mask> {
  public:
    static constexpr TPosition kPosition = pos;
};

template <TPosition pos = TPosition::LCM>
class TBuf {
  public:
    template <typename T>
    LocalTensor<T> Get() {
        return LocalTensor<T>(memory_);
    }
    template <typename T>
    LocalTensor<T> Get(uint32_t len, emulator::Site site = emulator::Site::Here()) {
        return GetWithOffset<T>(len, 0, site);
    }
    // `size` in elements, `bufOffset` in bytes.
    template <typename T>
    LocalTensor<T> GetWithOffset(uint32_t size, uint32_t bufOffset,
                                 emulator::Site site = emulator::Site::Here()) {
        const uint64_t bytes = emulator::BytesOf<T>(size);
        if (bufOffset + bytes > memory_.bytes) {
            emulator::ScratchFault(memory_, bufOffset + bytes, site);
        }
        emulator::LocalOperand part = memory_;
        part.address += bufOffset;
        part.bytes = static_cast<uint32_t>(bytes);
        return LocalTensor<T>(part);
    }

  private:
    friend class TPipe;
    emulator::LocalOperand memory_{};
};

class TPipe {
  public:
    explicit TPipe(emulator::Site site = emulator::Site::Here()) { emulator::OpenPipe(site); }

    template <class T>
    bool InitBuffer(T& que, uint8_t num, uint32_t len,
                    emulator::Site site = emulator::Site::Here()) {
        que.index_ = emulator::InitQueue(T::kPosition, T::kEvents, DepthOf(que), num, len, site);
        return true;
    }
    template <TPosition bufPos>
    bool InitBuffer(TBuf<bufPos>& buf, uint32_t len,
                    emulator::Site site = emulator::Site::Here()) {
        buf.memory_ = emulator::InitScratch(bufPos, len, site);
        return true;
    }
    template <HardEvent evt>
    TEventID AllocEventID(emulator::Site site = emulator::Site::Here()) {
        return emulator::AllocEventId(static_cast<uint32_t>(evt), site);
    }
    template <HardEvent evt>
    TEventID FetchEventID(emulator::Site site = emulator::Site::Here()) {
        return emulator::FetchEventId(static_cast<uint32_t>(evt), site);
    }
    TEventID FetchEventID(HardEvent evt, emulator::Site site = emulator::Site::Here()) {
        return emulator::FetchEventId(static_cast<uint32_t>(evt), site);
    }
    template <HardEvent evt>
    void ReleaseEventID(TEventID id, emulator::Site site = emulator::Site::Here()) {
        emulator::ReleaseEventId(static_cast<uint32_t>(evt), id, site);
    }
    void Reset(emulator::Site site = emulator::Site::Here()) { emulator::ResetPipe(site); }
    void Destroy(emulator::Site site = emulator::Site::Here()) { emulator::ResetPipe(site); }

  private:
    template <TPosition src, TPosition dst, int32_t depth, auto mask>
    static constexpr uint32_t DepthOf(const TQueBind<src, dst, depth, mask>&) {
        return static_cast<uint32_t>(depth);
    }
};

// The pipe has no state of its own, so any object stands for the core's.
TPipe* GetTPipePtr();

}  // namespace AscendC

#endif
