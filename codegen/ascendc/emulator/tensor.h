// LocalTensor and GlobalTensor: typed views of memory that cost nothing to copy.
#ifndef ASCENDFX_EMULATOR_TENSOR_H
#define ASCENDFX_EMULATOR_TENSOR_H

#include "half.h"
#include "instruction.h"

namespace emulator {

// Scalar accesses (pipe S). `bytes` is the size of one element. Reads return its bits.
uint64_t ScalarLoad(const LocalOperand& tensor, uint64_t offset, uint32_t bytes, Site site);
void ScalarStore(const LocalOperand& tensor, uint64_t offset, uint32_t bytes, uint64_t bits,
                 Site site);
uint64_t ScalarLoad(const GlobalOperand& tensor, uint64_t offset, uint32_t bytes, Site site);
void ScalarStore(const GlobalOperand& tensor, uint64_t offset, uint32_t bytes, uint64_t bits,
                 Site site);
// Checks a static tensor against the capacity of its memory and the style of the kernel.
void CheckStaticTensor(const LocalOperand& tensor, Site site);

// Bytes of a tensor in local memory, which has fewer than 4 GiB.
template <typename T>
uint32_t LocalBytesOf(uint32_t elements) {
    const uint64_t bytes = BytesOf<T>(elements);
    return bytes > ~uint32_t{0} ? ~uint32_t{0} : static_cast<uint32_t>(bytes);
}

template <typename T>
uint64_t BitsOf(const T& value) {
    uint64_t bits = 0;
    std::memcpy(&bits, &value, sizeof(T));
    return bits;
}

template <typename T>
T FromBits(uint64_t bits) {
    T value;
    std::memcpy(&value, &bits, sizeof(T));
    return value;
}

}  // namespace emulator

namespace AscendC {

template <typename T>
class LocalTensor : public emulator::LocalOperand {
  public:
    using PrimType = T;

    LocalTensor() = default;
    explicit LocalTensor(const emulator::LocalOperand& operand) : LocalOperand(operand) {}
    // Static-tensor style: `byteAddress` in the memory of `where`, `elements` of T.
    LocalTensor(TPosition where, uint32_t byteAddress, uint32_t elements,
                emulator::Site site = emulator::Site::Here()) {
        address = byteAddress;
        bytes = emulator::LocalBytesOf<T>(elements);
        position = where;
        emulator::CheckStaticTensor(*this, site);
    }

    T GetValue(const uint32_t index, emulator::Site site = emulator::Site::Here()) const {
        return emulator::FromBits<T>(
            emulator::ScalarLoad(*this, index * sizeof(T), sizeof(T), site));
    }
    template <typename U>
    void SetValue(const uint32_t index, const U value,
                  emulator::Site site = emulator::Site::Here()) const {
        const T converted = static_cast<T>(value);
        emulator::ScalarStore(*this, index * sizeof(T), sizeof(T), emulator::BitsOf(converted),
                              site);
    }
    // The rest of the tensor from element `offset`; empty if that lies behind its end.
    LocalTensor operator[](const uint32_t offset) const {
        LocalTensor rest = *this;
        const uint64_t skipped = emulator::BytesOf<T>(offset);
        rest.address = static_cast<uint32_t>(address + skipped);
        rest.bytes = skipped < bytes ? static_cast<uint32_t>(bytes - skipped) : 0;
        return rest;
    }
    template <typename U>
    LocalTensor<U> ReinterpretCast() const {
        return LocalTensor<U>(static_cast<const emulator::LocalOperand&>(*this));
    }
    uint32_t GetSize() const {
        return std::is_same_v<T, int4b_t> ? bytes * 2 : static_cast<uint32_t>(bytes / sizeof(T));
    }
    void SetSize(const uint32_t elements) {
        bytes = emulator::LocalBytesOf<T>(elements);
    }
    uint32_t GetLength() const { return bytes; }
    TPosition GetPosition() const { return position; }
    uint64_t GetPhyAddr() const { return address; }
    uint64_t GetPhyAddr(const uint32_t offset) const {
        return address + emulator::BytesOf<T>(offset);
    }
};

template <typename T>
class GlobalTensor : public emulator::GlobalOperand {
  public:
    using PrimType = T;

    void SetGlobalBuffer(__gm__ T* buffer, uint64_t elements) {
        address = origin = reinterpret_cast<uint8_t*>(buffer);
        bytes = emulator::BytesOf<T>(elements);
    }
    void SetGlobalBuffer(__gm__ T* buffer) {
        address = origin = reinterpret_cast<uint8_t*>(buffer);
        bytes = kUnbounded;
    }
    const __gm__ T* GetPhyAddr() const { return reinterpret_cast<const T*>(address); }
    __gm__ T* GetPhyAddr(const uint64_t offset) const {
        return reinterpret_cast<T*>(address + emulator::BytesOf<T>(offset));
    }
    T GetValue(const uint64_t index, emulator::Site site = emulator::Site::Here()) const {
        return emulator::FromBits<T>(
            emulator::ScalarLoad(*this, emulator::BytesOf<T>(index), sizeof(T), site));
    }
    void SetValue(const uint64_t index, T value, emulator::Site site = emulator::Site::Here()) {
        emulator::ScalarStore(*this, emulator::BytesOf<T>(index), sizeof(T),
                              emulator::BitsOf(value), site);
    }
    GlobalTensor operator[](const uint64_t offset) const {
        GlobalTensor rest = *this;
        const uint64_t skipped = emulator::BytesOf<T>(offset);
        rest.address = address + skipped;
        if (bytes != kUnbounded || skipped == emulator::kMostBytes) {
            rest.bytes = skipped < bytes ? bytes - skipped : 0;
        }
        return rest;
    }
    uint64_t GetSize() const { return bytes == kUnbounded ? 0 : bytes / sizeof(T); }
};

}  // namespace AscendC

#endif
