"""Tables of one step's places side by side in one local buffer, so that one queue orders them."""

from collections.abc import Mapping
from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import BLOCK_BYTES, round_up
from ascendfx.codegen.ascendc.kernels.vector_kernel import blocks_for
from ascendfx.codegen.ascendc.target import Target

_LANES = BLOCK_BYTES // 4
_SHARE = 4
"""Places of a core at least: fewer would make more copies than work."""
_STEP = 64
"""Places of a core at most at a time."""


OWN_ROWS = """\
const uint32_t own = static_cast<uint32_t>(places.GetValue(ROW_START + i)) - begin;
const uint32_t behind = i + 1 < count
    ? static_cast<uint32_t>(places.GetValue(ROW_START + i + 1)) - begin : end - begin;
const uint32_t rowsOf = behind - own;
"""
"""The packed rows of place ``i`` among those that `write_packed_range` found."""


@dataclass(frozen=True, slots=True)
class Regions:
    """Where each table starts.

    Attributes:
        starts: First element of each table, a multiple of a block.
        elements: Elements of the buffer.
    """

    starts: Mapping[str, int]
    elements: int

    @property
    def bytes(self) -> int:
        """Size of the buffer."""
        return self.elements * 4


def lay_out(widths: Mapping[str, int], places: int) -> Regions:
    """Return the regions of i32 tables with so many elements for each place."""
    starts: dict[str, int] = {}
    end = 0
    for name, width in widths.items():
        starts[name] = end
        end += round_up(width * places, _LANES)
    return Regions(starts, end)


def split_places(requests: int, target: Target) -> tuple[int, int]:
    """Return over how many cores places are split, and how many a core takes at a time."""
    blocks = blocks_for(-(-requests // _SHARE), target)
    return blocks, min(-(-requests // blocks), _STEP)


def write_places(out: CppWriter) -> None:
    """Give this block the places ``first <= i < last``, of which there may be none."""
    out.line("const uint32_t share = (requests + BLOCKS - 1) / BLOCKS;")
    out.line("const uint32_t first = static_cast<uint32_t>(GetBlockIdx()) * share;")
    out.line("const uint32_t last = first + share < requests ? first + share : requests;")


def write_packed_range(out: CppWriter) -> None:
    """Find the packed rows ``begin <= row < end`` of ``count`` places from ``start`` on."""
    out.line("const uint32_t begin = static_cast<uint32_t>(row_startGm.GetValue(start));")
    out.line("const uint32_t end = start + count < requests")
    out.line("    ? static_cast<uint32_t>(row_startGm.GetValue(start + count)) : rows;")
