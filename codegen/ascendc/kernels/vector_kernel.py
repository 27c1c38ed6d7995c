"""What every vector kernel shares: local buffers, signature, copies of rows, split over cores."""

import enum
from collections.abc import Generator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import round_up
from ascendfx.codegen.ascendc.kernel import (
    SIZES_ELEMENTS,
    DeviceSize,
    Direction,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.kernel_entry import kernel_entry
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

CPP_TYPE: Mapping[DType, str] = {
    DType.F32: "float",
    DType.F16: "half",
    DType.BF16: "bfloat16_t",
    DType.I32: "int32_t",
    DType.I8: "int8_t",
    DType.I4X2: "int8_t",  # bytes, but for the cast that makes them
}

_LARGEST_F32 = (2 - 2.0**-23) * 2.0**127


class BufferKind(enum.Enum):
    """How a local buffer is declared; a queue orders the pipes that share it."""

    INPUT = "TQue<TPosition::VECIN, 1>"
    OUTPUT = "TQue<TPosition::VECOUT, 1>"
    THROUGH = "TQueBind<TPosition::VECIN, TPosition::VECOUT, 1>"
    SCRATCH = "TBuf<TPosition::VECCALC>"


@dataclass(frozen=True, slots=True)
class LocalBuffer:
    """A queue or scratch area in the unified buffer.

    Attributes:
        name: Variable in the emitted text.
        kind: Queue position, or scratch.
        bytes: Size of one copy, a multiple of 32.
        copies: 2 lets one be filled while the other is read.
    """

    name: str
    kind: BufferKind
    bytes: int
    copies: int = 1

    def __str__(self) -> str:
        times = f"{self.copies} x " if self.copies > 1 else ""
        return f"{self.name} {times}{self.bytes:,}"


@dataclass(frozen=True, slots=True)
class RowView:
    """Where the rows of a tensor stand in global memory, in elements.

    Attributes:
        stride: From the start of one row to the start of the next.
        offset: From the start of the tensor to the first row.
    """

    stride: int
    offset: int = 0


def row_pitch(columns: int, dtype: DType, target: Target) -> int:
    """Return the elements a row takes in local memory, where each row starts a granule."""
    return round_up(columns * dtype.bytes, target.copy_granule) // dtype.bytes


def blocks_for(items: int, target: Target) -> int:
    """Return how many vector cores can have work if there are at most ``items`` pieces of it."""
    return max(1, min(items, target.vector_cores))


def local_bytes(buffers: Sequence[LocalBuffer]) -> int:
    """Return the unified-buffer bytes of ``buffers``."""
    return sum(buffer.bytes * buffer.copies for buffer in buffers)


def check_local_buffers(
    family: str, buffers: Sequence[LocalBuffer], target: Target, *, hint: str = ""
) -> None:
    """Check that ``buffers`` fit one vector core.

    Raises:
        GraphError: They need more unified buffer than the target has.
    """
    needed = local_bytes(buffers)
    if needed > target.unified_buffer:
        raise GraphError(
            code="tile-too-large",
            reason=f"{family} needs {needed:,} bytes of unified buffer, "
            f"{target.name} has {target.unified_buffer:,}",
            hint=hint,
            notes=tuple(f"{buffer} bytes" for buffer in buffers),
        )


def check_dtype(family: str, dtype: DType) -> None:
    """Check that ``dtype`` is a format the vector families move and compute.

    Raises:
        GraphError: It is neither f32 nor bf16.
    """
    if dtype not in (DType.F32, DType.BF16):
        raise GraphError(
            code="unsupported-format",
            reason=f"{family} takes f32 or bf16, not {dtype.value}",
            hint="insert a cast",
        )


def check_moved(family: str, dtype: DType) -> None:
    """Check that ``dtype`` is a format whose rows are stored in caches.

    Raises:
        GraphError: It is neither f32, bf16 nor i8.
    """
    if dtype is not DType.I8:
        check_dtype(family, dtype)


def check_positive(family: str, **sizes: int) -> None:
    """Check that every named size is at least 1.

    Raises:
        GraphError: One is not.
    """
    for name, size in sizes.items():
        if size < 1:
            raise GraphError(
                code="empty-axis",
                reason=f"{family}: {name} is {size}",
                hint="every size must be at least 1",
            )


def check_view(family: str, view: RowView, columns: int) -> None:
    """Check that rows of ``columns`` elements do not overlap in ``view``.

    Raises:
        GraphError: A row is longer than the stride, or starts before the tensor.
    """
    if view.stride < columns or view.offset < 0:
        raise GraphError(
            code="invalid-view",
            reason=f"{family}: rows of {columns} elements at stride {view.stride}, "
            f"offset {view.offset} overlap or leave the tensor",
            hint="a stride must be at least the row length, and the last row inside the tensor",
        )


SIZES_ARGUMENT = KernelArgument("sizes", DType.I32, Direction.IN, SIZES_ELEMENTS)

_COPY_IN = """\
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
"""

_COPY_OUT = """\
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
"""


def write_head(
    out: CppWriter, comment: Sequence[str], constants: Mapping[str, int | str], helpers: str = ""
) -> None:
    """Write the plan as a comment, the include, the constants and the copy functions.

    An ``int`` constant becomes ``uint32_t``; a string is a complete ``float`` literal.
    """
    out.lines(f"// {line}" for line in comment)
    out.line('#include "kernel_operator.h"')
    out.line("using namespace AscendC;")
    out.line()
    for name, value in constants.items():
        out.line(f"constexpr {'uint32_t' if isinstance(value, int) else 'float'} {name} = {value};")
    out.line()
    for text in (_COPY_IN, _COPY_OUT, helpers):
        if text:
            out.lines(text.splitlines())
            out.line()


@contextmanager
def kernel_function(
    out: CppWriter,
    name: str,
    arguments: Sequence[KernelArgument],
    kind: KernelKind = KernelKind.VECTOR,
) -> Generator[None]:
    """Write the signature, the kernel type and one GlobalTensor per argument; then the body."""
    with kernel_entry(out, name, kind, arguments):
        for argument in arguments:
            scalar = CPP_TYPE[argument.dtype]
            out.line(f"GlobalTensor<{scalar}> {argument.name}Gm;")
            out.line(
                f"{argument.name}Gm.SetGlobalBuffer((__gm__ {scalar}*){argument.name}, "
                f"{argument.elements});"
            )
        yield


def write_size(out: CppWriter, variable: str, size: DeviceSize) -> None:
    """Read a size from device memory."""
    out.line(f"const uint32_t {variable} = static_cast<uint32_t>(sizesGm.GetValue({size.slot}));")


def write_split(out: CppWriter, items: str) -> None:
    """Give this block the items ``first <= i < last``; blocks without work return."""
    out.line(f"const uint32_t share = ({items} + BLOCKS - 1) / BLOCKS;")
    out.line("const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;")
    with out.block(f"if (first >= {items})"):
        out.line("return;")
    out.line(f"const uint32_t last = first + share < {items} ? first + share : {items};")


@contextmanager
def through_queue(out: CppWriter, queue: str, variable: str, scalar: str) -> Generator[None]:
    """Allocate ``variable`` from a queue, fill it inside the block, and pass it to its reader."""
    out.line(f"LocalTensor<{scalar}> {variable} = {queue}.AllocTensor<{scalar}>();")
    yield
    hand_over(out, queue, variable, scalar)


def hand_over(out: CppWriter, queue: str, variable: str, scalar: str) -> None:
    """Pass ``variable`` to its reader; again, if it was changed since the last time."""
    out.line(f"{queue}.EnQue({variable});")
    out.line(f"{variable} = {queue}.DeQue<{scalar}>();")


def write_buffers(out: CppWriter, buffers: Sequence[LocalBuffer]) -> None:
    """Declare the pipe and every local buffer."""
    out.line("TPipe pipe;")
    for buffer in buffers:
        out.line(f"{buffer.kind.value} {buffer.name};")
        copies = "" if buffer.kind is BufferKind.SCRATCH else f"{buffer.copies}, "
        out.line(f"pipe.InitBuffer({buffer.name}, {copies}{buffer.bytes});")


def float_literal(value: float) -> str:
    """Return ``value`` as a C++ ``float`` literal; what f32 cannot hold is infinite."""
    if abs(value) > _LARGEST_F32:
        return "__builtin_inff()" if value > 0 else "-__builtin_inff()"
    return f"{float(value)!r}f"
