"""Cut flash attention for the cube and vector cores: tile sizes and where each tile lives.

A *lane* is one query vector: a head of one token in decode, a token of one head in prefill. Scores
are kept transposed, ``[keys, lanes]``, so that the softmax runs over rows of lanes: maxima and sums
are element-wise folds, and a statistic of a lane is applied by repeating one row.

Source: derived; memory limits from `Target`, instruction limits from asc-devkit, pages
"DataCopy ND2NZ", "LoadData 2D", "LoadDataWithTranspose", "Mmad", "Fixpipe", "high-dimension cut".
"""

from dataclasses import dataclass
from itertools import product

from ascendfx.codegen.ascendc.hardware_units import (
    BLOCK_BYTES,
    BLOCK_FLOATS,
    FRACTAL_ROW_BYTES,
    FRACTAL_ROWS,
    MAX_REPEAT_STRIDE,
    MAX_ROW_STRIDE,
    round_up,
)
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

MAX_KEY_TILE = 128
"""Keys of one step at most: how many scores share one rescaling of the sums."""
_TILE_CHOICES = (MAX_KEY_TILE, 64, 32, 16)

CODE_ROWS = 8
"""Keys whose codes become numbers at a time: a Brcb spreads the scales of so many."""

MAX_KEY_SLOTS = 4
"""Key tiles in L1 at most: their events and two more are ids 0 to 5."""


@dataclass(frozen=True, slots=True)
class AttentionTiles:
    """Tile sizes of one kernel; all addresses follow from them.

    Attributes:
        dtype: Format of queries, keys, values and probabilities in memory.
        key_widths: Contraction columns of the score summands, for example latent and rope.
        value_width: Columns of a value.
        values_are_keys: Values are the tile of the first key summand and are loaded once.
        lanes: Query vectors of a tile, a multiple of 16.
        key_tile: Keys of one step.
        key_slots: Key tiles in L1: one multiplied, one kept for its values, the rest on the way.
        k_step: Contraction columns per L0 load.
        n_step: Value columns per L0 load.
        causal: The vector cores keep a table of lane minus key indices.
        codes: Keys of the first summand are int8 codes, which the vector cores turn into numbers.
    """

    dtype: DType
    key_widths: tuple[int, ...]
    value_width: int
    values_are_keys: bool
    lanes: int
    key_tile: int
    key_slots: int
    k_step: int
    n_step: int
    causal: bool
    codes: bool = False

    @property
    def fractal_columns(self) -> int:
        """Columns of a fractal (K0)."""
        return FRACTAL_ROW_BYTES // self.dtype.bytes

    @property
    def value_pitch(self) -> int:
        """Value columns rounded up to whole squares of 16."""
        return round_up(self.value_width, FRACTAL_ROWS)

    @property
    def key_pitches(self) -> tuple[int, ...]:
        """Columns an L1 tile of each key summand takes."""
        first = self.value_pitch if self.values_are_keys else self.key_widths[0]
        return (first, *self.key_widths[1:])

    @property
    def vector_lanes(self) -> int:
        """Lanes of the first vector core of a group; the second takes the rest."""
        return round_up(self.lanes // 2, FRACTAL_ROWS)

    @property
    def key_slot_bytes(self) -> int:
        """L1 bytes of the keys (and values) of one step."""
        own_values = 0 if self.values_are_keys else self.value_pitch
        return self.key_tile * (sum(self.key_pitches) + own_values) * self.dtype.bytes

    @property
    def query_bytes(self) -> int:
        """L1 bytes of the resident queries."""
        return self.lanes * sum(self.key_widths) * self.dtype.bytes

    @property
    def probability_bytes(self) -> int:
        """Bytes of the probabilities of one step, in L1 and in each workspace slot."""
        return self.key_tile * self.lanes * self.dtype.bytes

    @property
    def l1_bytes(self) -> int:
        """L1 in use: key slots, queries, probabilities."""
        return self.key_slots * self.key_slot_bytes + self.query_bytes + self.probability_bytes

    @property
    def score_bytes(self) -> int:
        """Bytes of one score tile in L0C and in each workspace slot."""
        return self.key_tile * self.lanes * 4

    @property
    def product_bytes(self) -> int:
        """Bytes of one tile of weighted values in a workspace slot."""
        return self.lanes * self.value_pitch * 4

    @property
    def decoded_bytes(self) -> int:
        """Bytes of the numbers of one step of codes in a workspace slot."""
        return self.key_tile * self.key_widths[0] * self.dtype.bytes if self.codes else 0

    @property
    def exchanged_bytes(self) -> int:
        """GM workspace of two slots of scores, probabilities, products."""
        return 2 * (self.score_bytes + self.probability_bytes + self.product_bytes)

    @property
    def workspace_bytes(self) -> int:
        """GM workspace of one group of cores: what is exchanged, and a slot per key slot."""
        return self.exchanged_bytes + self.key_slots * self.decoded_bytes

    @property
    def decode_regions(self) -> tuple[tuple[str, int], ...]:
        """Name and bytes of what a vector core decodes with, over ``TILE`` and ``FOLD``."""
        numbers = CODE_ROWS * self.key_widths[0]
        return (
            ("CODES", numbers),
            ("HALVES", 2 * numbers),
            ("NUMBERS", 4 * numbers),
            ("SCALES", CODE_ROWS * 4),
            ("SCALE_BLOCKS", CODE_ROWS * BLOCK_BYTES),
        )

    @property
    def vector_regions(self) -> tuple[tuple[str, int], ...]:
        """Name and bytes of each UB region of a vector core, in address order."""
        lanes, tile = self.vector_lanes, self.key_tile * self.vector_lanes * 4
        decoding = sum(size for _, size in self.decode_regions) - tile // 2 if self.codes else 0
        return (
            ("OUTPUT", lanes * self.value_width * 4),
            ("TILE", round_up(max(tile, 2 * self.value_width * 4, decoding), 2 * BLOCK_BYTES)),
            ("FOLD", tile // 2),
            ("MAXIMUM", lanes * 4),
            ("TOTAL", lanes * 4),
            ("PEAK", lanes * 4),
            ("FACTOR", 2 * lanes * 4),
            ("FACTOR_BLOCKS", lanes * BLOCK_BYTES),
            ("DISTANCE", tile if self.causal else 0),
        )

    @property
    def unified_bytes(self) -> int:
        """UB in use on a vector core."""
        return sum(size for _, size in self.vector_regions)


@dataclass(frozen=True, slots=True)
class TileRequest:
    """What has to be cut.

    Attributes:
        family: Kernel family, for messages.
        dtype: Format of all tensors but the statistics.
        key_widths: As in `AttentionTiles`.
        value_width: As in `AttentionTiles`.
        values_are_keys: As in `AttentionTiles`.
        lanes: Query vectors that share their keys.
        key_limit: Keys with one address and stride, a multiple of 16; a step divides it.
        causal: As in `AttentionTiles`.
        codes: As in `AttentionTiles`.
    """

    family: str
    dtype: DType
    key_widths: tuple[int, ...]
    value_width: int
    values_are_keys: bool
    lanes: int
    key_limit: int
    causal: bool
    codes: bool = False


def plan_attention_tiles(request: TileRequest, target: Target) -> AttentionTiles:
    """Choose the tile with the fewest steps (lanes x keys), then with more keys, then slots.

    Raises:
        GraphError: A format or width the cube cannot take, or no tile fits.
    """
    _check_widths(request)
    limit = max(request.lanes, 1)
    candidates = [
        _cut(request, min(lane_limit, round_up(limit, FRACTAL_ROWS)), key_tile, slots, target)
        for lane_limit, key_tile, slots in product(_TILE_CHOICES, _TILE_CHOICES, (MAX_KEY_SLOTS, 3))
        if request.key_limit % key_tile == 0
    ]
    fitting = [tiles for tiles in candidates if _fits(tiles, target)]
    if not fitting:
        raise _does_not_fit(request, candidates[-1], target)
    return max(fitting, key=_worth)


def _worth(tiles: AttentionTiles) -> tuple[int, int, int]:
    return tiles.lanes * tiles.key_tile, tiles.key_tile, tiles.key_slots


def check_row_stride(family: str, name: str, stride: int) -> None:
    """Refuse a view whose rows are too far apart for one copy.

    Raises:
        GraphError: ``stride`` (elements) does not fit the ND->NZ copy.
    """
    if stride > MAX_ROW_STRIDE:
        raise GraphError(
            code="row-stride-too-long",
            reason=f"{family}: rows of `{name}` are {stride} elements apart, "
            f"an ND->NZ copy reaches {MAX_ROW_STRIDE}",
            hint="split the heads over devices, or store this tensor by itself",
        )


def _cut(
    request: TileRequest, lane_limit: int, key_tile: int, slots: int, target: Target
) -> AttentionTiles:
    tile_count = -(-request.lanes // lane_limit)
    lanes = round_up(-(-request.lanes // tile_count), 16)
    size = request.dtype.bytes
    half = min(target.l0a_buffer, target.l0b_buffer) // 2
    most_k = half // (max(key_tile, lanes) * size)
    most_n = min(half // (key_tile * size), target.l0c_buffer // 2 // (lanes * 4))
    return AttentionTiles(
        dtype=request.dtype,
        key_widths=request.key_widths,
        value_width=request.value_width,
        values_are_keys=request.values_are_keys,
        lanes=lanes,
        key_tile=key_tile,
        key_slots=slots,
        k_step=min(most_k // FRACTAL_ROWS * FRACTAL_ROWS, max(request.key_widths)),
        n_step=min(
            most_n // FRACTAL_ROWS * FRACTAL_ROWS, round_up(request.value_width, FRACTAL_ROWS)
        ),
        causal=request.causal,
        codes=request.codes,
    )


def _fits(tiles: AttentionTiles, target: Target) -> bool:
    return (
        tiles.l1_bytes <= target.l1_buffer
        and tiles.unified_bytes <= target.unified_buffer
        and tiles.probability_bytes <= target.l0a_buffer // 2
        and tiles.score_bytes <= target.l0c_buffer // 2
    )


def _check_widths(request: TileRequest) -> None:
    if request.dtype not in {DType.F32, DType.BF16}:
        raise GraphError(
            code="unsupported-format",
            reason=f"{request.family}: {request.dtype.value} is neither f32 nor bf16",
            hint='compile with dtype="float32" or dtype="bfloat16"',
        )
    granule = BLOCK_BYTES // request.dtype.bytes
    for width in (*request.key_widths, request.value_width):
        if width <= 0 or width % granule:
            raise GraphError(
                code="unaligned-head",
                reason=f"{request.family}: a vector of {width} {request.dtype.value} is "
                f"{width * request.dtype.bytes} bytes, not a positive multiple of {BLOCK_BYTES}",
                hint=f"head sizes must be multiples of {granule}",
            )
    if request.codes and request.key_widths[0] % BLOCK_BYTES:
        raise GraphError(
            code="unaligned-head",
            reason=f"{request.family}: a vector of {request.key_widths[0]} codes is not a positive "
            f"multiple of {BLOCK_BYTES} bytes",
            hint="leave this cache in the format of the model",
        )
    if request.value_width // BLOCK_FLOATS > MAX_REPEAT_STRIDE:
        raise GraphError(
            code="tile-too-large",
            reason=f"{request.family}: values of {request.value_width} columns, "
            f"the vector unit strides over at most {MAX_REPEAT_STRIDE * BLOCK_FLOATS}",
            hint="heads of this width are not served",
        )


def _does_not_fit(request: TileRequest, tiles: AttentionTiles, target: Target) -> GraphError:
    return GraphError(
        code="tile-too-large",
        reason=f"{request.family}: a tile of {tiles.lanes} queries and {tiles.key_tile} keys "
        f"needs {tiles.l1_bytes:,} bytes of L1 and {tiles.unified_bytes:,} bytes of UB, "
        f"{target.name} has {target.l1_buffer:,} and {target.unified_buffer:,}",
        hint="the head is too wide for this kernel family",
    )
