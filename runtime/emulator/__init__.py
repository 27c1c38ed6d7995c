"""Build emitted kernels with the host compiler and run them on the CPU."""

from ascendfx.runtime.emulator.build import build_kernels
from ascendfx.runtime.emulator.checks import Checks
from ascendfx.runtime.emulator.error import EmulatorError
from ascendfx.runtime.emulator.launch import BuiltKernel, LaunchRecord, allocate

__all__ = ["BuiltKernel", "Checks", "EmulatorError", "LaunchRecord", "allocate", "build_kernels"]
