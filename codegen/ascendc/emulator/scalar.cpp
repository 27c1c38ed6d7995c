// Scalar accesses to tensors (pipe S) and the checks of static tensors.
#include "machine.h"
#include "tensor.h"

namespace emulator {

namespace {

uint64_t LoadBits(const void* from, uint32_t bytes) {
    uint64_t bits = 0;
    std::memcpy(&bits, from, bytes);
    return bits;
}

}  // namespace

uint64_t ScalarLoad(const LocalOperand& tensor, uint64_t offset, uint32_t bytes, Site site) {
    Issue("GetValue", PIPE_S, site, {Piece(tensor, offset, bytes).Aligned(0)}, {}, Cost{bytes, 1});
    return LoadBits(LocalBytes(tensor) + offset, bytes);
}

void ScalarStore(const LocalOperand& tensor, uint64_t offset, uint32_t bytes, uint64_t bits,
                 Site site) {
    Issue("SetValue", PIPE_S, site, {}, {Piece(tensor, offset, bytes).Aligned(0)}, Cost{bytes, 1});
    std::memcpy(LocalBytes(tensor) + offset, &bits, bytes);
}

uint64_t ScalarLoad(const GlobalOperand& tensor, uint64_t offset, uint32_t bytes, Site site) {
    Issue("GetValue", PIPE_S, site, {Piece(tensor, offset, bytes)}, {}, Cost{bytes, 1});
    return LoadBits(tensor.address + offset, bytes);
}

void ScalarStore(const GlobalOperand& tensor, uint64_t offset, uint32_t bytes, uint64_t bits,
                 Site site) {
    Issue("SetValue", PIPE_S, site, {}, {Piece(tensor, offset, bytes)}, Cost{bytes, 1});
    std::memcpy(tensor.address + offset, &bits, bytes);
}

void CheckStaticTensor(const LocalOperand& tensor, Site site) {
    Core& core = *current;
    core.site = site;
    const Space space = tensor.space();
    const LocalMemory& memory = core.memory[static_cast<int>(space)];
    const char* name = kSpaceNames[static_cast<int>(space)];
    if (core.hasPipe) {
        Fault(site, PIPE_S, "arguments", tensor.address,
              "a static tensor in a kernel with TPipe; the two styles do not mix");
    }
    core.isStatic = true;
    if (uint64_t{tensor.address} + tensor.bytes > memory.capacity) {
        Fault(site, PIPE_S, "capacity", tensor.address,
              "a static tensor of bytes %u to %llu of %s, but %u are usable", tensor.address,
              static_cast<unsigned long long>(uint64_t{tensor.address} + tensor.bytes), name,
              memory.capacity);
    }
    if (tensor.address % AlignmentOf(space) != 0) {
        Fault(site, PIPE_S, "alignment", tensor.address,
              "a static tensor at byte %u of %s: the address must be a multiple of %u",
              tensor.address, name, AlignmentOf(space));
    }
}

}  // namespace emulator
