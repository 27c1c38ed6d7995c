"""Load a compiled kernel and run it on NumPy arrays."""

import ctypes
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument, KernelKind
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.emulator.error import EmulatorError
from ascendfx.runtime.emulator.library import EmulatorLibrary

Array = NDArray[Any]  # Any: arguments have every element type

PIPES = ("S", "V", "M", "MTE1", "MTE2", "MTE3", "FIX")
"""In the order of ``pipe_t`` in core_types.h."""

# The order of KernelMetaType in system.h and of Direction in machine.h.
_TYPES = {
    KernelKind.VECTOR: 0,
    KernelKind.CUBE: 1,
    KernelKind.SYNCED_VECTOR: 2,
    KernelKind.MIX: 5,
}
_DIRECTIONS = {
    Direction.IN: 0,
    Direction.OUT: 1,
    Direction.IN_OUT: 2,
    Direction.WORKSPACE: 3,
}
PATIENCE = 60.0
"""Seconds of computing in which a launch must write something: far more than any right kernel."""

_MOST_BLOCKS = 65535
"""``numBlocks`` is a positive number of 16 bits."""

_SPACES = 8
"""``Space::COUNT`` of core_types.h; capacities are in the order of ``Space``."""

# "NPU architecture 2201" of the Ascend C programming guide (mirror-cann/asc-devkit 82b89a15).
_BIAS_TABLE_BYTES = 1024
_FIXPIPE_BUFFER_BYTES = 2048


class _Argument(ctypes.Structure):
    _fields_ = [
        ("address", ctypes.c_void_p),
        ("bytes", ctypes.c_uint64),
        ("direction", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
    ]


class LaunchRequest(ctypes.Structure):
    """``LaunchRequest`` of launch.h."""

    _fields_ = [
        ("entry", ctypes.c_void_p),
        ("pointers", ctypes.POINTER(ctypes.c_void_p)),
        ("arguments", ctypes.POINTER(_Argument)),
        ("argument_names", ctypes.POINTER(ctypes.c_char_p)),
        ("argument_count", ctypes.c_uint32),
        ("type", ctypes.c_uint32),
        ("blocks", ctypes.c_uint32),
        ("capacity", ctypes.c_uint32 * _SPACES),
        ("patience", ctypes.c_uint32),
    ]


class LaunchResult(ctypes.Structure):
    """``LaunchResult`` of launch.h."""

    _fields_ = [
        ("failed", ctypes.c_uint32),
        ("block", ctypes.c_uint32),
        ("line", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("address", ctypes.c_uint64),
        ("instructions", ctypes.c_uint64 * len(PIPES)),
        ("bytes", ctypes.c_uint64 * len(PIPES)),
        ("elements", ctypes.c_uint64 * len(PIPES)),
        ("kind", ctypes.c_char * 32),
        ("core", ctypes.c_char * 32),
        ("pipe", ctypes.c_char * 32),
        ("file", ctypes.c_char * 256),
        ("text", ctypes.c_char * 1024),
    ]


@dataclass(frozen=True, slots=True)
class LaunchRecord:
    """What one launch did, summed over all cores.

    Attributes:
        kernel: Its name.
        blocks: ``numBlocks`` of the launch.
        instructions: Instructions per pipe.
        bytes: Bytes moved by the copies of each pipe.
        elements: Elements computed by each pipe.
    """

    kernel: str
    blocks: int
    instructions: dict[str, int]
    bytes: dict[str, int]
    elements: dict[str, int]


_LIBRARIES: dict[str, ctypes.CDLL] = {}


def _load_library(library: EmulatorLibrary) -> ctypes.CDLL:
    """Return the emulator for these checks, loading it once however many cache folders hold it.

    Kernels ask the loader for it by name, so a second copy would not be the one they call.
    """
    if library.soname not in _LIBRARIES:
        _LIBRARIES[library.soname] = ctypes.CDLL(str(library.path))
    return _LIBRARIES[library.soname]


class BuiltKernel:
    """A compiled kernel; launch it as often as you like.

    Attributes:
        kernel: What was compiled.
        path: The shared object.
        library: The emulator that it calls.
        patience: Seconds of computing without any write of any core after which a launch counts as
            endless; 0: no limit.
    """

    def __init__(
        self, kernel: Kernel, target: Target, path: Path, library: EmulatorLibrary
    ) -> None:
        self.kernel = kernel
        self.path = path
        self.library = library
        self.patience = PATIENCE
        self._target = target
        self._run = _load_library(library).ascendfx_launch
        self._object = ctypes.CDLL(str(path))
        self._request = self.prepare()
        self._result = LaunchResult()

    def prepare(self) -> LaunchRequest:
        """Return a new request for `ascendfx_launch` that has everything but addresses.

        Whoever launches it sets them, in ``pointers`` and in ``arguments``. Arguments have the size
        that the kernel was planned for.
        """
        kernel, target = self.kernel, self._target
        count = len(kernel.arguments)
        arguments = (_Argument * count)()
        for slot, each in zip(arguments, kernel.arguments, strict=True):
            slot.direction = _DIRECTIONS[each.direction]
            slot.bytes = each.elements * each.dtype.bytes
        names = (ctypes.c_char_p * count)(*(each.name.encode() for each in kernel.arguments))
        request = LaunchRequest(
            entry=ctypes.cast(self._object.ascendfx_entry, ctypes.c_void_p),
            pointers=(ctypes.c_void_p * count)(),
            arguments=arguments,
            argument_names=names,
            argument_count=count,
            type=_TYPES[kernel.kind],
            blocks=kernel.blocks,
            patience=round(self.patience * 1000),
        )
        request.capacity[:] = (
            0,
            target.unified_buffer,
            target.l1_buffer,
            target.l0a_buffer,
            target.l0b_buffer,
            target.l0c_buffer,
            _BIAS_TABLE_BYTES,
            _FIXPIPE_BUFFER_BYTES,
        )
        return request

    def launch(self, tensors: Sequence[Array], *, blocks: int | None = None) -> LaunchRecord:
        """Run all blocks and return when the last one has ended.

        Args:
            tensors: One C-contiguous array per argument, in order, of the argument's format.
                Outputs are written in place.
            blocks: ``numBlocks``, 1..65535; default: what the kernel was planned for.

        Raises:
            EmulatorError: A core broke a rule.
            GraphError: An array does not fit its argument, or the number of blocks is no such.
        """
        count = self.kernel.blocks if blocks is None else blocks
        if not 1 <= count <= _MOST_BLOCKS:
            raise GraphError(
                code="launch-arguments",
                reason=f"kernel `{self.kernel.name}`: {count} blocks are not in 1..{_MOST_BLOCKS}",
                hint="a launch starts that many cores, one after the other where there are fewer",
            )
        arguments = self.kernel.arguments
        if len(tensors) != len(arguments):
            raise GraphError(
                code="launch-arguments",
                reason=f"kernel `{self.kernel.name}` takes {len(arguments)} arrays "
                f"({', '.join(each.name for each in arguments)}), got {len(tensors)}",
                hint="pass one NumPy array for each of kernel.arguments, in that order",
            )
        for i, (argument, tensor) in enumerate(zip(arguments, tensors, strict=True)):
            _check_array(self.kernel.name, argument, tensor)
            address = tensor.__array_interface__["data"][0]
            self._request.pointers[i] = address
            self._request.arguments[i].address = address
            self._request.arguments[i].bytes = tensor.nbytes
        self._request.blocks = count
        self._request.patience = round(self.patience * 1000)
        if self._run(ctypes.byref(self._request), ctypes.byref(self._result)):
            raise launch_error(self.kernel, self._result)
        return self._record()

    def _record(self) -> LaunchRecord:
        result = self._result
        return LaunchRecord(
            self.kernel.name,
            self._request.blocks,
            dict(zip(PIPES, result.instructions, strict=True)),
            dict(zip(PIPES, result.bytes, strict=True)),
            dict(zip(PIPES, result.elements, strict=True)),
        )


def launch_error(kernel: Kernel, result: LaunchResult) -> EmulatorError:
    """Return the error that a result describes."""
    lines = kernel.source.splitlines()
    excerpt = lines[result.line - 1].strip() if 0 < result.line <= len(lines) else ""
    return EmulatorError(
        kernel=kernel.name,
        block=result.block,
        core=result.core.decode(),
        pipe=result.pipe.decode(),
        line=result.line,
        address=result.address,
        text=result.text.decode(errors="replace"),
        kind=result.kind.decode(),
        excerpt=excerpt,
    )


def _check_array(kernel: str, argument: KernelArgument, tensor: Array) -> None:
    expected = argument.dtype.numpy
    if tensor.dtype != expected:
        problem = f"has format {tensor.dtype}, not {expected}"
    elif not tensor.flags.c_contiguous:
        problem = "is not contiguous"
    elif argument.direction is not Direction.IN and not tensor.flags.writeable:
        problem = "is read-only but the kernel writes it"
    else:
        return
    raise GraphError(
        code="launch-arguments",
        reason=f"kernel `{kernel}`: the array for `{argument.name}` {problem}",
        hint="pass one NumPy array for each of kernel.arguments, in that order",
    )


def allocate(argument: KernelArgument) -> Array:
    """Return a new array that fits ``argument``, filled with zeros."""
    return np.zeros(argument.elements, argument.dtype.numpy)
