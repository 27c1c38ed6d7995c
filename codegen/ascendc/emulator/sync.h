// Synchronisation inside a core (events, barriers) and between cores (flags).
// Source: asc-devkit 9.1, API/同步控制.
#ifndef ASCENDFX_EMULATOR_SYNC_H
#define ASCENDFX_EMULATOR_SYNC_H

#include "tensor.h"

enum event_t : int32_t {
    EVENT_ID0,
    EVENT_ID1,
    EVENT_ID2,
    EVENT_ID3,
    EVENT_ID4,
    EVENT_ID5,
    EVENT_ID6,
    EVENT_ID7,
};

namespace emulator {

void SetFlag(uint32_t pair, int32_t id, Site site);
void WaitFlag(uint32_t pair, int32_t id, Site site);
void PipeBarrier(pipe_t pipe, Site site);
int32_t AllocEventId(uint32_t pair, Site site);
int32_t FetchEventId(uint32_t pair, Site site);
void ReleaseEventId(uint32_t pair, int32_t id, Site site);
void CrossCoreSet(uint32_t mode, pipe_t pipe, uint32_t id, Site site);
void CrossCoreWait(uint32_t id, Site site);
void CleanCache(const GlobalOperand& tensor, uint64_t bytes, Site site);
void InitSocState(Site site);

}  // namespace emulator

namespace AscendC {

using TEventID = int32_t;

template <HardEvent event>
void SetFlag(int32_t eventID, emulator::Site site = emulator::Site::Here()) {
    emulator::SetFlag(static_cast<uint32_t>(event), eventID, site);
}

template <HardEvent event>
void WaitFlag(int32_t eventID, emulator::Site site = emulator::Site::Here()) {
    emulator::WaitFlag(static_cast<uint32_t>(event), eventID, site);
}

template <pipe_t pipe>
void PipeBarrier(emulator::Site site = emulator::Site::Here()) {
    static_assert(pipe != PIPE_S, "PipeBarrier<PIPE_S> does not exist");
    emulator::PipeBarrier(pipe, site);
}

template <uint8_t modeId, pipe_t pipe>
void CrossCoreSetFlag(uint16_t flagId, emulator::Site site = emulator::Site::Here()) {
    static_assert(modeId <= 2, "CrossCoreSetFlag: NPU arch 2201 has modes 0, 1 and 2");
    static_assert(pipe != PIPE_S && pipe != PIPE_ALL,
                  "CrossCoreSetFlag: the pipe is V, M, MTE1, MTE2, MTE3 or FIX");
    emulator::CrossCoreSet(modeId, pipe, flagId, site);
}

template <uint8_t modeId = 0, pipe_t pipe = PIPE_S>
void CrossCoreWaitFlag(uint16_t flagId, emulator::Site site = emulator::Site::Here()) {
    emulator::CrossCoreWait(flagId, site);
}

enum class CacheLine : uint8_t { SINGLE_CACHE_LINE, ENTIRE_DATA_CACHE };
enum class DcciDst : uint8_t { CACHELINE_ALL, CACHELINE_UB, CACHELINE_OUT, CACHELINE_ATOMIC };

template <typename T, CacheLine entireType, DcciDst dcciDst>
void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst,
                              emulator::Site site = emulator::Site::Here()) {
    const bool all = entireType == CacheLine::ENTIRE_DATA_CACHE;
    emulator::CleanCache(dst, all ? ~uint64_t{0} : 64, site);
}

template <typename T, CacheLine entireType>
void DataCacheCleanAndInvalid(const GlobalTensor<T>& dst,
                              emulator::Site site = emulator::Site::Here()) {
    DataCacheCleanAndInvalid<T, entireType, DcciDst::CACHELINE_ALL>(dst, site);
}

inline void InitSocState(emulator::Site site = emulator::Site::Here()) {
    emulator::InitSocState(site);
}

}  // namespace AscendC

#endif
