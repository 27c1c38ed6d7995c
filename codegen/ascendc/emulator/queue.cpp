// Buffers and queues: capacity, discipline, and the events that hand tensors from pipe to pipe.
#include "queue.h"

#include "machine.h"

namespace emulator {

namespace {

constexpr uint32_t kQueueBuffersPerPosition = 8;  // event ids per position (TQue overview page)

uint32_t RoundUp(uint32_t bytes, uint32_t to) { return (bytes + to - 1) / to * to; }

Queue& QueueAt(uint16_t index, const char* call, Site site) {
    current->site = site;
    if (index >= current->queueCount) {
        Fault(site, PIPE_S, "queue", 0, "%s: the queue has no buffers (InitBuffer missing)", call);
    }
    return current->queues[index];
}

uint32_t Reserve(TPosition position, uint32_t bytes, Site site) {
    Core& core = *current;
    const auto space = static_cast<int>(SpaceOf(position));
    const uint32_t capacity = core.memory[space].capacity;
    const uint32_t address = core.spaceUsed[space];
    if (bytes > capacity || address > capacity - bytes) {
        Fault(site, PIPE_S, "capacity", address,
              "InitBuffer: %u bytes of %s after %u already in use, but %u are usable", bytes,
              kSpaceNames[space], address, capacity);
    }
    if (core.bufferCount == kMaxBuffers) {
        Fault(site, PIPE_S, "capacity", address, "InitBuffer: more than 64 buffers in one kernel");
    }
    core.spaceUsed[space] = address + bytes;
    return address;
}

uint16_t AddBuffer(TPosition position, uint32_t bytes, BufferState state, uint16_t queue,
                   Site site) {
    Core& core = *current;
    // The cube memories need coarser alignment than the 32 bytes InitBuffer rounds to.
    const uint32_t length = RoundUp(bytes, 32);
    const uint32_t address = Reserve(position, length, site);
    Buffer& buffer = core.buffers[core.bufferCount];
    buffer = Buffer{};
    buffer.address = address;
    buffer.length = length;
    buffer.queue = queue;
    buffer.generation = ++core.nextGeneration;
    buffer.position = position;
    buffer.state = state;
    buffer.fullEvent = buffer.freeEvent = -1;
    buffer.site = site;
    return core.bufferCount++;
}

LocalOperand TensorOf(uint16_t index) {
    const Buffer& buffer = current->buffers[index];
    LocalOperand tensor;
    tensor.address = buffer.address;
    tensor.bytes = buffer.length;
    tensor.buffer = static_cast<uint16_t>(index + 1);
    tensor.generation = buffer.generation;
    tensor.position = buffer.position;
    return tensor;
}

// The buffer behind a tensor given back to a queue.
uint16_t BufferOf(const Queue& queue, const LocalOperand& tensor, const char* call, Site site) {
    const uint32_t index = tensor.buffer - 1u;
    if (tensor.buffer == 0 || index < queue.firstBuffer ||
        index >= queue.firstBuffer + queue.bufferCount) {
        Fault(site, PIPE_S, "queue", tensor.address, "%s: the tensor does not come from this queue",
              call);
    }
    const Buffer& buffer = current->buffers[index];
    if (buffer.generation != tensor.generation || buffer.state == BufferState::FREE) {
        Fault(site, PIPE_S, "queue", tensor.address, "%s: the tensor was freed already", call);
    }
    return static_cast<uint16_t>(index);
}

void WaitFree(Buffer& buffer, Site site) {
    if (buffer.freeEvent < 0) return;
    const auto id = static_cast<uint32_t>(buffer.freeEvent);
    WaitEvent(*current, buffer.freePair, id, site);
    ReleaseEventId(*current, buffer.freePair, id, site);
    buffer.freeEvent = -1;
}

}  // namespace

void OpenPipe(Site site) {
    current->site = site;
    if (current->isStatic) {
        Fault(site, PIPE_S, "arguments", 0,
              "TPipe in a kernel with static tensors; the two styles do not mix");
    }
    current->hasPipe = true;
}

void ResetPipe(Site site) {
    Core& core = *current;
    core.site = site;
    for (uint16_t i = 0; i < core.bufferCount; ++i) {
        Buffer& buffer = core.buffers[i];
        WaitFree(buffer, site);
        if (buffer.state != BufferState::FREE && buffer.state != BufferState::SCRATCH) {
            Fault(site, PIPE_S, "leak", buffer.address,
                  "TPipe::Reset: the tensor allocated in line %u is still in use",
                  buffer.site.line);
        }
        buffer.generation = ++core.nextGeneration;
    }
    core.bufferCount = core.queueCount = 0;
    for (uint32_t& used : core.spaceUsed) used = 0;
    PipeBarrier(PIPE_ALL, site);
}

uint16_t InitQueue(TPosition position, QueueEvents events, uint32_t depth, uint32_t count,
                   uint32_t bytes, Site site) {
    Core& core = *current;
    core.site = site;
    if (count == 0 || bytes == 0) {
        Fault(site, PIPE_S, "queue", 0, "InitBuffer: %u buffers of %u bytes", count, bytes);
    }
    uint32_t siblings = count;
    for (uint16_t i = 0; i < core.queueCount; ++i) {
        if (core.queues[i].position == position) siblings += core.queues[i].bufferCount;
    }
    if (siblings > kQueueBuffersPerPosition) {
        Fault(site, PIPE_S, "queue", 0,
              "InitBuffer: %u queue buffers on one position; it has event ids for 8", siblings);
    }
    const uint16_t index = core.queueCount++;
    Queue& queue = core.queues[index];
    queue = Queue{};
    queue.firstBuffer = core.bufferCount;
    queue.bufferCount = static_cast<uint16_t>(count);
    queue.depth = static_cast<uint16_t>(depth);
    queue.fullPair = events.full;
    queue.freePair = events.free;
    queue.position = position;
    for (uint32_t i = 0; i < count; ++i) {
        AddBuffer(position, bytes, BufferState::FREE, index, site);
    }
    return index;
}

LocalOperand InitScratch(TPosition position, uint32_t bytes, Site site) {
    current->site = site;
    return TensorOf(AddBuffer(position, bytes, BufferState::SCRATCH, kNoQueue, site));
}

LocalOperand AllocTensor(uint16_t index, Site site) {
    Queue& queue = QueueAt(index, "AllocTensor", site);
    // In turn, so that a double buffer alternates; any free one if the turn is not kept.
    uint32_t best = kMaxBuffers;
    for (uint32_t i = 0; i < queue.bufferCount; ++i) {
        const uint32_t candidate = queue.firstBuffer + (queue.next + i) % queue.bufferCount;
        if (current->buffers[candidate].state != BufferState::FREE) continue;
        best = candidate;
        queue.next = static_cast<uint16_t>((candidate - queue.firstBuffer + 1) % queue.bufferCount);
        break;
    }
    if (best == kMaxBuffers) {
        Fault(site, PIPE_S, "queue", 0,
              "AllocTensor: all %u buffers of the queue are in use (FreeTensor missing)",
              queue.bufferCount);
    }
    Buffer& buffer = current->buffers[best];
    WaitFree(buffer, site);
    buffer.state = BufferState::ALLOCATED;
    buffer.filled = buffer.stored = false;
    buffer.generation = ++current->nextGeneration;
    buffer.site = site;
    return TensorOf(static_cast<uint16_t>(best));
}

void FreeTensor(uint16_t index, const LocalOperand& tensor, Site site) {
    Queue& queue = QueueAt(index, "FreeTensor", site);
    Buffer& buffer = current->buffers[BufferOf(queue, tensor, "FreeTensor", site)];
    if (buffer.state == BufferState::QUEUED) {
        Fault(site, PIPE_S, "queue", buffer.address, "FreeTensor: the tensor is in its queue");
    }
    buffer.freePair = queue.freePair;
    const int id = AllocateEventId(*current, buffer.freePair, site);
    SetEvent(*current, buffer.freePair, static_cast<uint32_t>(id), site);
    buffer.freeEvent = static_cast<int8_t>(id);
    buffer.state = BufferState::FREE;
    buffer.generation = ++current->nextGeneration;
}

void EnQue(uint16_t index, const LocalOperand& tensor, uint8_t fullEvent, Site site) {
    Queue& queue = QueueAt(index, "EnQue", site);
    const uint16_t number = BufferOf(queue, tensor, "EnQue", site);
    Buffer& buffer = current->buffers[number];
    if (buffer.state == BufferState::QUEUED) {
        Fault(site, PIPE_S, "queue", buffer.address, "EnQue: the tensor is in the queue already");
    }
    if (queue.queued >= queue.depth) {
        Fault(site, PIPE_S, "queue", buffer.address,
              "EnQue: the queue of depth %u is full (DeQue missing)", queue.depth);
    }
    buffer.fullPair = fullEvent;
    const int id = AllocateEventId(*current, fullEvent, site);
    SetEvent(*current, fullEvent, static_cast<uint32_t>(id), site);
    buffer.fullEvent = static_cast<int8_t>(id);
    buffer.state = BufferState::QUEUED;
    queue.order[queue.queued++] = number;
}

LocalOperand DeQue(uint16_t index, Site site) {
    Queue& queue = QueueAt(index, "DeQue", site);
    if (queue.queued == 0) {
        Fault(site, PIPE_S, "queue", 0, "DeQue before EnQue: the queue is empty");
    }
    const uint16_t number = queue.order[0];
    --queue.queued;
    for (uint16_t i = 0; i < queue.queued; ++i) queue.order[i] = queue.order[i + 1];
    Buffer& buffer = current->buffers[number];
    const auto id = static_cast<uint32_t>(buffer.fullEvent);
    WaitEvent(*current, buffer.fullPair, id, site);
    ReleaseEventId(*current, buffer.fullPair, id, site);
    buffer.fullEvent = -1;
    buffer.state = BufferState::DEQUEUED;
    buffer.filled = buffer.stored = false;
    return TensorOf(number);
}

uint32_t QueuedTensors(uint16_t index, Site site) {
    return QueueAt(index, "GetTensorCountInQue", site).queued;
}

bool HasIdleBuffer(uint16_t index, Site site) {
    const Queue& queue = QueueAt(index, "HasIdleBuffer", site);
    for (uint32_t i = 0; i < queue.bufferCount; ++i) {
        if (current->buffers[queue.firstBuffer + i].state == BufferState::FREE) return true;
    }
    return false;
}

void FreeAllEvents(uint16_t index, Site site) {
    Queue& queue = QueueAt(index, "FreeAllEvent", site);
    for (uint32_t i = 0; i < queue.bufferCount; ++i) {
        WaitFree(current->buffers[queue.firstBuffer + i], site);
    }
}

void ScratchFault(const LocalOperand& scratch, uint64_t bytes, Site site) {
    if (scratch.bytes == 0) {
        Fault(site, PIPE_S, "queue", 0, "TBuf: the buffer was never given memory (InitBuffer)");
    }
    Fault(site, PIPE_S, "bounds", scratch.address,
          "TBuf: a tensor up to byte %llu of a buffer of %u bytes",
          static_cast<unsigned long long>(bytes), scratch.bytes);
}

}  // namespace emulator

namespace AscendC {

TPipe* GetTPipePtr() {
    alignas(TPipe) static unsigned char storage[sizeof(TPipe)];
    return reinterpret_cast<TPipe*>(storage);
}

}  // namespace AscendC
