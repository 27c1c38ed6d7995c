"""Choose the tile of a cube kernel: what fits the memories, and which of it is modelled fastest.

A tile is ``[m, n]`` outputs. ``x`` and ``W`` pass through L1 in k steps of ``l1_k`` and through
L0A and L0B in steps of ``l0_k``, both with two buffers; the sums stay in L0C.

Sources of the rates: asc-devkit, appendix "performance of cube instructions" (L1 to L0, Mmad), and
its samples ``data_copy`` and ``matmul_high_performance`` with their published profiles (copies,
heads). No device of ours has confirmed them.
"""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendfx.codegen.ascendc.hardware_units import FRACTAL_ROWS, round_up
from ascendfx.codegen.ascendc.kernels.cube_product import CubeProduct, blocks_in_one_copy
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_COPY_CYCLES = 300  # head of one MTE2 or Fixpipe instruction
_GM_TO_L1 = 75  # bytes per cycle of one core, as the next ones
_L0C_TO_GM = 39
_L1_TO_L0A = 256
_L1_TO_L0B = 128
_L2_BYTES_PER_SECOND = 4.94e12  # of the chip; sample data_copy: GM to L1 with ND to NZ, hits in L2
_MTE1_CYCLES = 50  # head of one LoadData
_MMAD_CYCLES = 20  # head of one Mmad
_CUBE_K = {DType.BF16: 16, DType.F32: 4, DType.I8: 32, DType.I4X2: 32}  # per cycle and fractal
_ROW_TILES = (16, 32, 64, 128, 256)
_MODEL_ERROR = 0.05  # relative; how near the model comes to the published profile of the GEMM
_MAX_COLUMNS = 256
_MAX_L0_K = {DType.BF16: 256, DType.F32: 256, DType.I8: 512, DType.I4X2: 512}
_WIDE_K = 64  # k steps above this are multiples of it: 128 or 256 bytes of a row
_MAX_STEPS = 16  # l1_k is at most this many l0_k


@dataclass(frozen=True, slots=True)
class CubeTile:
    """Tile sizes in elements.

    Attributes:
        m: Rows, a multiple of 16.
        n: Columns, a multiple of 16.
        l1_k: k step of one copy to L1, a multiple of 16, for codes of 32.
        l0_k: k step of one Mmad, a multiple as well, not above ``l1_k``.
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
    l0c_buffers = _l0c_buffers(tile, target)
    x_l1 = tile.m * round_up(product.k, product.k0) if tile.x_stays else 2 * tile.m * tile.l1_k
    return CubeMemory(
        l1=(x_l1 + 2 * tile.n * tile.l1_k) * size,
        l0a=2 * tile.m * tile.l0_k * size,
        l0b=2 * tile.n * tile.l0_k * size,
        l0c=l0c_buffers * _sum_bytes(tile),
        l0c_buffers=l0c_buffers,
    )


def _sum_bytes(tile: CubeTile) -> int:
    return tile.m * tile.n * DType.F32.bytes


def _l0c_buffers(tile: CubeTile, target: Target) -> int:
    return 2 if 2 * _sum_bytes(tile) <= target.l0c_buffer else 1


def check_tile(family: str, product: CubeProduct, tile: CubeTile, target: Target) -> None:
    """Refuse a tile the kernel text cannot use.

    Raises:
        GraphError: Sizes are not whole fractals, or a memory is too small.
    """
    sizes = (tile.m, tile.n, tile.l1_k, tile.l0_k)
    wrong = any(size < FRACTAL_ROWS or size % FRACTAL_ROWS for size in sizes)
    if wrong or tile.l0_k > tile.l1_k or _cuts_fractals(product, tile):
        raise GraphError(
            code="tile-shape",
            reason=f"{family}: tile {tile.m} x {tile.n} with k steps {tile.l1_k} and {tile.l0_k}: "
            f"{_wanted(product)}, the second step not above the first",
            hint="leave `tile` out to have one chosen",
        )
    if tile.x_stays and (product.batch > 1 or product.rows > tile.m):
        raise GraphError(
            code="tile-shape",
            reason=f"{family}: x cannot stay in L1: batch {product.batch}, "
            f"{product.rows:,} rows, tile of {tile.m} rows",
            hint="leave `tile` out to have one chosen",
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
                hint="leave `tile` out to have one chosen",
            )


def _cuts_fractals(product: CubeProduct, tile: CubeTile) -> bool:
    return any(step % product.k_granule for step in (tile.l1_k, tile.l0_k))


def _wanted(product: CubeProduct) -> str:
    if product.k_granule == FRACTAL_ROWS:
        return f"all four must be multiples of {FRACTAL_ROWS}"
    return f"m and n must be multiples of {FRACTAL_ROWS}, the steps of {product.k_granule}"


def choose_tile(product: CubeProduct, target: Target, *, x_may_stay: bool) -> CubeTile:
    """Return the largest of the tiles the model cannot tell from the fastest.

    The smallest tile fits every target, so there is always one.
    """
    cycles = {
        tile: modelled_cycles(product, tile, target)
        for tile in _candidates(product, target)
        if _fits(product, tile, target) and (x_may_stay or not tile.x_stays)
    }
    limit = min(cycles.values()) * (1 + _MODEL_ERROR)
    fast = [tile for tile in cycles if cycles[tile] <= limit]
    return max(fast, key=lambda t: (t.m * t.n, t.x_stays, t.l1_k, -cycles[t]))


def modelled_cycles(product: CubeProduct, tile: CubeTile, target: Target) -> int:
    """Return the modelled cycles at full row capacity.

    The cores take tiles in rounds. In a round copies to L1, loads to L0 and products overlap, and
    what no tile has read before must come from HBM, which all cores share. Nothing hides the
    first copies.
    """
    m_tiles, n_tiles = -(-product.rows // tile.m), -(-product.n // tile.n)
    x_bytes, w_bytes = (size * product.k * product.dtype.bytes for size in _sides(product, tile))
    fresh = w_bytes / m_tiles + x_bytes / n_tiles
    hbm = target.hbm_bytes_per_second / (target.clock_mhz * 1e6)
    l2 = _L2_BYTES_PER_SECOND / (target.clock_mhz * 1e6)
    rounds, rest = divmod(product.batch * m_tiles * n_tiles, target.cube_cores)
    cycles = 0.0
    for count, active in ((rounds, target.cube_cores), (1, rest)):
        rate = min(_GM_TO_L1, l2 / active) if active else _GM_TO_L1
        busy = _tile_cycles(product, tile, rate, _l0c_buffers(tile, target))
        cycles += count * max(busy if active else 0, active * fresh / hbm)
    step = min(tile.l1_k, product.k) / product.k
    first = w_bytes * step + x_bytes * (1 if tile.x_stays else step)
    return round(cycles + 2 * _COPY_CYCLES + first / _GM_TO_L1)


def _sides(product: CubeProduct, tile: CubeTile) -> tuple[int, int]:
    """Return rows and columns of a tile, not more than there are."""
    rows, columns = round_up(product.rows, FRACTAL_ROWS), round_up(product.n, FRACTAL_ROWS)
    return min(tile.m, rows), min(tile.n, columns)


def _tile_cycles(product: CubeProduct, tile: CubeTile, rate: float, l0c_buffers: int) -> float:
    """Return the cycles of the busiest pipe for one tile, copies at ``rate`` bytes per cycle."""
    (m, n), k, size = _sides(product, tile), product.k, product.dtype.bytes
    steps, parts = -(-k // tile.l1_k), -(-k // tile.l0_k)
    copies = _w_copies(product, tile) + (0 if tile.x_stays else 1)
    moved = (n if tile.x_stays else m + n) * k * size
    copy = steps * copies * _COPY_CYCLES + moved / rate
    load = parts * (m // FRACTAL_ROWS + 1) * _MTE1_CYCLES
    load += k * size * (m / _L1_TO_L0A + n / _L1_TO_L0B)
    mmad = parts * _MMAD_CYCLES + m * n * k / (FRACTAL_ROWS * FRACTAL_ROWS * _CUBE_K[product.dtype])
    store = _COPY_CYCLES + m * n * product.out_dtype.bytes / _L0C_TO_GM
    busy = max(copy, load, mmad)
    return max(busy, store) if l0c_buffers == 2 else busy + store


def _w_copies(product: CubeProduct, tile: CubeTile) -> int:
    """Return the instructions that bring one k step of W to L1."""
    if product.b_layout == "nz" and not blocks_in_one_copy(product):
        return tile.l1_k // product.k0
    return 1


def _candidates(product: CubeProduct, target: Target) -> Iterator[CubeTile]:
    """Yield tiles that fit L0A and L0B; L1 and L0C are for the caller to check."""
    size, k = product.dtype.bytes, round_up(product.k, product.k_granule)
    rows, columns = round_up(product.rows, FRACTAL_ROWS), round_up(product.n, FRACTAL_ROWS)
    for m in (m for m in _ROW_TILES if m < 2 * rows):
        for n in range(FRACTAL_ROWS, min(columns, _MAX_COLUMNS) + 1, FRACTAL_ROWS):
            l0_k = min(target.l0a_buffer // (2 * m * size), target.l0b_buffer // (2 * n * size))
            l0_k = min(l0_k, _MAX_L0_K[product.dtype], k)
            granule = _WIDE_K if l0_k > _WIDE_K else product.k_granule
            l0_k = l0_k // granule * granule
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
