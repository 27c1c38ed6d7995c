"""Choose the tile of a cube kernel: what fits the memories, and which of it is modelled fastest.

A tile is ``[m, n]`` outputs. ``x`` and ``W`` pass through L1 in k steps of ``l1_k`` and through
L0A and L0B in steps of ``l0_k``, both with two buffers; the sums stay in L0C.

Source of the rates: facts/ascend910b.md section 5 (copies, MTE1, Mmad; calibrated by published
samples, not by a device of ours).
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendfx.codegen.ascendc.kernels.cube_product import (
    CUBE,
    CubeProduct,
    blocks_in_one_copy,
    ceil_to,
    groups_in_one_copy,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_COPY_CYCLES = 300  # head of one MTE2 or Fixpipe instruction
_GM_TO_L1 = 75  # bytes per cycle, one core
_L0C_TO_GM = 39
_L1_TO_L0A = 256
_L1_TO_L0B = 128
_MTE1_CYCLES = 50  # head of one LoadData
_MMAD_CYCLES = 20
_CUBE_K = {DType.BF16: 16, DType.F32: 4}  # terms per cycle and fractal
_ROW_TILES = (16, 32, 64, 128, 256)
_MAX_COLUMNS = 256
_MAX_L0_K = 256
_MAX_STEPS = 16  # l1_k is at most this many l0_k


@dataclass(frozen=True, slots=True)
class CubeTile:
    """Tile sizes in elements.

    Attributes:
        m: Rows, a multiple of 16.
        n: Columns, a multiple of 16.
        l1_k: k step of one copy to L1, a multiple of 16.
        l0_k: k step of one Mmad, a multiple of 16, not above ``l1_k``.
        x_stays: All of ``x`` lies in L1 for the whole kernel; only ``W`` streams.
    """

    m: int
    n: int
    l1_k: int
    l0_k: int
    x_stays: bool = False


@dataclass(frozen=True, slots=True)
class CubeMemory:
    """Local bytes of a tile, all buffers counted, and the number of L0C buffers."""

    l1: int
    l0a: int
    l0b: int
    l0c: int
    l0c_buffers: int


def tile_memory(product: CubeProduct, tile: CubeTile, target: Target) -> CubeMemory:
    """Return what the tile occupies; L0C has two buffers if both fit."""
    size = product.dtype.bytes
    x_l1 = tile.m * ceil_to(product.k, product.k0) if tile.x_stays else 2 * tile.m * tile.l1_k
    sums = tile.m * tile.n * DType.F32.bytes
    l0c_buffers = 2 if 2 * sums <= target.l0c_buffer else 1
    return CubeMemory(
        l1=(x_l1 + 2 * tile.n * tile.l1_k) * size,
        l0a=2 * tile.m * tile.l0_k * size,
        l0b=2 * tile.n * tile.l0_k * size,
        l0c=l0c_buffers * sums,
        l0c_buffers=l0c_buffers,
    )


def check_tile(family: str, product: CubeProduct, tile: CubeTile, target: Target) -> None:
    """Refuse a tile the kernel text cannot use.

    Raises:
        GraphError: Sizes are not whole fractals, or a memory is too small.
    """
    sizes = (tile.m, tile.n, tile.l1_k, tile.l0_k)
    if any(size < CUBE or size % CUBE for size in sizes) or tile.l0_k > tile.l1_k:
        raise GraphError(
            code="tile-shape",
            reason=f"{family}: tile {tile.m} x {tile.n} with k steps {tile.l1_k} and {tile.l0_k}: "
            f"all four must be multiples of {CUBE}, the second step not above the first",
        )
    if tile.x_stays and (product.batch > 1 or product.rows > tile.m):
        raise GraphError(
            code="tile-shape",
            reason=f"{family}: x cannot stay in L1: batch {product.batch}, "
            f"{product.rows:,} rows, tile of {tile.m} rows",
        )
    memory = tile_memory(product, tile, target)
    for name, used, limit in (
        ("L1", memory.l1, target.l1_buffer),
        ("L0A", memory.l0a, target.l0a_buffer),
        ("L0B", memory.l0b, target.l0b_buffer),
        ("L0C", memory.l0c, target.l0c_buffer),
    ):
        if used > limit:
            raise GraphError(
                code="tile-too-large",
                reason=f"{family}: tile {tile.m} x {tile.n} with k steps {tile.l1_k} and "
                f"{tile.l0_k} needs {used:,} bytes of {name}, {target.name} has {limit:,}",
            )


def choose_tile(product: CubeProduct, target: Target, *, x_may_stay: bool) -> CubeTile:
    """Return the tile with the fewest modelled cycles; equal ones: the larger tile.

    The smallest tile fits every target, so there is always one.
    """
    fitting = (
        tile
        for tile in _candidates(product, target)
        if _fits(product, tile, target) and (x_may_stay or not tile.x_stays)
    )
    return min(
        fitting,
        key=lambda t: (modelled_cycles(product, t, target), -t.m * t.n, -t.l1_k, t.x_stays),
    )


def modelled_cycles(product: CubeProduct, tile: CubeTile, target: Target) -> int:
    """Return the modelled cycles of the busiest core at full row capacity.

    Copies to L1, loads to L0 and products overlap; the slowest of the three counts, plus the
    first copy, which nothing hides, and the result copy unless L0C has two buffers.
    """
    size, out = product.dtype.bytes, product.out_dtype.bytes
    m, n = min(tile.m, ceil_to(product.rows, CUBE)), min(tile.n, ceil_to(product.n, CUBE))
    tiles = product.batch * -(-product.rows // tile.m) * -(-product.n // tile.n)
    rounds = -(-tiles // target.cube_cores)
    steps, parts = -(-product.k // tile.l1_k), -(-product.k // tile.l0_k)
    shared = target.hbm_bytes_per_second / (target.clock_mhz * 1e6) / min(tiles, target.cube_cores)
    rate = min(_GM_TO_L1, shared)
    copies = _w_copies(product, tile) + (0 if tile.x_stays else 1)
    moved = (n if tile.x_stays else m + n) * product.k * size
    copy = steps * copies * _COPY_CYCLES + moved / rate
    load = parts * (m // CUBE + 1) * _MTE1_CYCLES
    load += product.k * size * (m / _L1_TO_L0A + n / _L1_TO_L0B)
    mmad = parts * _MMAD_CYCLES + m * n * product.k / (CUBE * CUBE * _CUBE_K[product.dtype])
    store = _COPY_CYCLES + m * n * out / _L0C_TO_GM
    if tile_memory(product, tile, target).l0c_buffers == 2:
        busy = max(copy, load, mmad, store)
    else:
        busy = max(copy, load, mmad) + store
    first_x = m * (product.k if tile.x_stays else min(tile.l1_k, product.k)) * size
    first = 2 * _COPY_CYCLES + (first_x + n * min(tile.l1_k, product.k) * size) / rate
    return round(rounds * busy + first)


def _w_copies(product: CubeProduct, tile: CubeTile) -> int:
    """Return the instructions that bring one k step of W to L1."""
    match product.b_layout:
        case "kn" if not groups_in_one_copy(product):
            return tile.l1_k // CUBE
        case "nz" if not blocks_in_one_copy(product):
            return tile.l1_k // product.k0
        case _:
            return 1


def _candidates(product: CubeProduct, target: Target) -> Iterator[CubeTile]:
    """Yield tiles that fit L0A and L0B; L1 and L0C are for the caller to check."""
    size, k = product.dtype.bytes, ceil_to(product.k, CUBE)
    rows, columns = ceil_to(product.rows, CUBE), ceil_to(product.n, CUBE)
    for m in (m for m in _ROW_TILES if m < 2 * rows):
        for n in range(CUBE, min(columns, _MAX_COLUMNS) + 1, CUBE):
            l0_k = min(target.l0a_buffer // (2 * m * size), target.l0b_buffer // (2 * n * size))
            l0_k = min(l0_k, _MAX_L0_K, k) // CUBE * CUBE
            for steps in (2**i for i in range(_MAX_STEPS.bit_length()) if l0_k):
                l1_k = min(steps * l0_k, k)
                yield CubeTile(m, n, l1_k, l0_k)
                if product.batch == 1 and product.rows <= m:
                    yield CubeTile(m, n, l1_k, l0_k, x_stays=True)
                if l1_k == k:
                    break


def _fits(product: CubeProduct, tile: CubeTile, target: Target) -> bool:
    memory = tile_memory(product, tile, target)
    return memory.l1 <= target.l1_buffer and memory.l0c <= target.l0c_buffer
