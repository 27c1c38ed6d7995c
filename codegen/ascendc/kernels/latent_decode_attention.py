"""Decode attention over a paged latent cache, the keys of a row split over groups of cores.

For row ``t`` of request ``row_request[t]`` at position ``positions[t]``, head ``h``::

    score[j] = scale * (q_latent[t, h] . latent[j] + q_rope[t, h] . rope[j])   j <= positions[t]
    out[t, h] = sum_j softmax(score)[j] * latent[j]

A split covers an equal share of the row's cache blocks and writes ``sum_j exp(score - m) latent``,
``m`` and ``l = sum_j exp(score - m)``; `combine_attention_splits` merges them. A split without keys
writes 0, NEGLIGIBLE and 0.

Source: DeepSeek-V2 (arXiv 2405.04434) section 2.1 for the absorbed form; splitting as in
FlashDecoding; lay-out on the chip: `attention_tiles`.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import FRACTAL_ROWS
from ascendfx.codegen.ascendc.kernel import (
    DeviceSize,
    Direction,
    Kernel,
    KernelArgument,
    KernelKind,
)
from ascendfx.codegen.ascendc.kernels.attention_cube_text import write_cube_core, write_load_values
from ascendfx.codegen.ascendc.kernels.attention_frame import (
    memory_comment,
    mixed_kernel,
    write_head,
    write_tensors,
    write_tile_constants,
    write_views,
)
from ascendfx.codegen.ascendc.kernels.attention_requests import LATENT_DECODE, latent_request
from ascendfx.codegen.ascendc.kernels.attention_steps_text import write_runs, write_step_sizes
from ascendfx.codegen.ascendc.kernels.attention_tiles import (
    AttentionTiles,
    check_row_stride,
    plan_attention_tiles,
)
from ascendfx.codegen.ascendc.kernels.attention_vector_text import write_vector_core
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.kernels.vector_kernel import SIZES_ARGUMENT, check_positive
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType

_FAMILY = LATENT_DECODE


@dataclass(frozen=True, slots=True)
class LatentDecodeShape:
    """The problem.

    Attributes:
        rows: Query rows (tokens) of the step.
        heads: Query heads.
        latent: Columns of the latent cache (``kv_lora_rank``), keys and values at once.
        rope: Columns of the rotary key cache.
        q_latent: Where ``[rows, heads, latent]`` lies; a row per token, a matrix per head.
        q_rope: Where ``[rows, heads, rope]`` lies.
        cache_blocks: Blocks of both caches.
        requests: Rows of the block table.
        max_blocks: Columns of the block table.
        scale: Softmax scale.
        dtype: Format of queries and caches.
        block_tokens: Tokens of a cache block.
    """

    rows: DeviceSize
    heads: int
    latent: int
    rope: int
    q_latent: MatrixView
    q_rope: MatrixView
    cache_blocks: int
    requests: int
    max_blocks: int
    scale: float
    dtype: DType
    block_tokens: int = BLOCK_TOKENS


@dataclass(frozen=True, slots=True)
class LatentDecodePlan:
    """How the work is cut.

    Attributes:
        shape: The problem.
        tiles: Tile sizes; a lane is a head.
        splits: Parts the keys of a row are cut into.
        head_tiles: Tiles the heads are cut into.
        groups: Groups of one cube and two vector cores.
        target: The chip.
    """

    shape: LatentDecodeShape
    tiles: AttentionTiles
    splits: int
    head_tiles: int
    groups: int
    target: Target

    @property
    def statistics_pitch(self) -> int:
        """Elements from one row of ``maximum`` and ``total`` to the next."""
        return self.head_tiles * self.tiles.lanes

    @property
    def partial_elements(self) -> int:
        """Elements of ``partial``: ``[splits, rows, heads, latent]``."""
        shape = self.shape
        return self.splits * shape.rows.capacity * shape.heads * shape.latent

    @property
    def statistics_elements(self) -> int:
        """Elements of ``maximum`` and of ``total``: ``[splits, rows, statistics_pitch]``."""
        return self.splits * self.shape.rows.capacity * self.statistics_pitch

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the workspace argument."""
        return self.groups * self.tiles.workspace_bytes


def plan_latent_decode_attention(
    shape: LatentDecodeShape, target: Target, *, splits: int | None = None
) -> LatentDecodePlan:
    """Choose tiles and splits; by default as many splits as keep every group busy.

    Raises:
        GraphError: A size, format or view is not supported, or no tile fits.
    """
    _check(shape)
    request = latent_request(
        shape.dtype,
        heads=shape.heads,
        latent=shape.latent,
        rope=shape.rope,
        block_tokens=shape.block_tokens,
    )
    tiles = plan_attention_tiles(request, target)
    head_tiles = -(-shape.heads // tiles.lanes)
    items = shape.rows.capacity * head_tiles
    chosen = max(1, target.cube_cores // items) if splits is None else splits
    chosen = min(chosen, shape.max_blocks)
    return LatentDecodePlan(
        shape=shape,
        tiles=tiles,
        splits=chosen,
        head_tiles=head_tiles,
        groups=min(target.cube_cores, items * chosen),
        target=target,
    )


def emit_latent_decode_attention(plan: LatentDecodePlan, name: str) -> Kernel:
    """Return the kernel.

    Arguments: ``q_latent, q_rope, latent_cache, rope_cache, block_table, positions, row_request,
    partial, maximum, total, sizes, workspace``.
    """
    arguments = _arguments(plan)
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), plan.shape.scale)
    write_tile_constants(out, plan.tiles, plan.target)
    write_cube_core(out, plan.tiles)
    out.lines(_WORK.splitlines())
    out.line()
    write_step_sizes(out)
    _write_inputs(out, plan)
    write_vector_core(out, plan.tiles, (_STORE,))
    write_runs(out, causal=False)
    with mixed_kernel(out, name, arguments):
        out.line("Inputs inputs;")
        inputs = ", ".join(argument.name for argument in arguments[:7])
        out.line(f"inputs.Open({inputs}, sizes);")
        with out.block("if ASCEND_IS_AIC"):
            out.line("RunCube(inputs, workspace);")
        with out.block("if ASCEND_IS_AIV"):
            out.line("Results results;")
            out.line("results.Open(partial, maximum, total);")
            out.line("RunVector(inputs, results, workspace);")
    return Kernel(name, _FAMILY, KernelKind.MIX, plan.groups, arguments, out.text())


def _check(shape: LatentDecodeShape) -> None:
    check_positive(
        _FAMILY,
        rows=shape.rows.capacity,
        heads=shape.heads,
        cache_blocks=shape.cache_blocks,
        requests=shape.requests,
        max_blocks=shape.max_blocks,
    )
    if shape.block_tokens % FRACTAL_ROWS:
        raise GraphError(
            code="unaligned-block",
            reason=f"{_FAMILY}: a cache block of {shape.block_tokens} tokens is not a multiple "
            "of 16",
            hint="use blocks of 128 tokens",
        )
    for name, stride in (
        ("q_latent", shape.q_latent.batch_stride),
        ("q_rope", shape.q_rope.batch_stride),
        ("latent_cache", shape.latent),
        ("rope_cache", shape.rope),
    ):
        check_row_stride(_FAMILY, name, stride)


def _arguments(plan: LatentDecodePlan) -> tuple[KernelArgument, ...]:
    shape, rows = plan.shape, plan.shape.rows.capacity
    tokens = shape.cache_blocks * shape.block_tokens

    def query(name: str, view: MatrixView, width: int) -> KernelArgument:
        elements = view.size(rows=rows, columns=width, batch=shape.heads)
        return KernelArgument(name, shape.dtype, Direction.IN, elements)

    statistics = plan.statistics_elements
    return (
        query("q_latent", shape.q_latent, shape.latent),
        query("q_rope", shape.q_rope, shape.rope),
        KernelArgument("latent_cache", shape.dtype, Direction.IN, tokens * shape.latent),
        KernelArgument("rope_cache", shape.dtype, Direction.IN, tokens * shape.rope),
        KernelArgument("block_table", DType.I32, Direction.IN, shape.requests * shape.max_blocks),
        KernelArgument("positions", DType.I32, Direction.IN, rows),
        KernelArgument("row_request", DType.I32, Direction.IN, rows),
        KernelArgument("partial", DType.F32, Direction.OUT, plan.partial_elements),
        KernelArgument("maximum", DType.F32, Direction.OUT, statistics),
        KernelArgument("total", DType.F32, Direction.OUT, statistics),
        SIZES_ARGUMENT,
        KernelArgument("workspace", DType.I8, Direction.WORKSPACE, plan.workspace_bytes),
    )


def _comment(plan: LatentDecodePlan, name: str) -> tuple[str, ...]:
    shape = plan.shape
    return (
        f"// {name}: latent attention of {shape.heads} heads, latent {shape.latent} + rope "
        f"{shape.rope} x {shape.dtype.value},",
        f"// at most {shape.rows.capacity} rows; {plan.head_tiles} head tiles x {plan.splits} "
        f"splits of a row over {plan.groups} groups.",
        *memory_comment(plan.tiles, plan.groups),
    )


def _constants(plan: LatentDecodePlan) -> dict[str, int]:
    shape = plan.shape
    return {
        "ROWS": shape.rows.capacity,
        "ROWS_SLOT": shape.rows.slot,
        "HEADS": shape.heads,
        "HEAD_TILES": plan.head_tiles,
        "SPLITS": plan.splits,
        "GROUPS": plan.groups,
        "LATENT": shape.latent,
        "ROPE": shape.rope,
        "BLOCK_TOKENS": shape.block_tokens,
        "MAX_BLOCKS": shape.max_blocks,
        "STATISTICS_PITCH": plan.statistics_pitch,
    }


_WORK = """\
// One work item: keys [begin, end) of one row for `lanes` heads of one tile.
struct Work {
    uint32_t row;
    uint32_t head;  // first head of the tile
    uint32_t lanes;
    uint32_t split;
    uint32_t request;
    uint32_t begin;
    uint32_t end;
};
"""

_FIND = """\
__aicore__ inline uint32_t Items() const {
    return static_cast<uint32_t>(sizes.GetValue(ROWS_SLOT)) * HEAD_TILES * SPLITS;
}

// Splits of a row follow each other; each takes the same number of cache blocks.
__aicore__ inline Work Find(uint32_t item) const {
    Work work;
    work.split = item % SPLITS;
    work.head = item / SPLITS % HEAD_TILES * LANES;
    work.row = item / (SPLITS * HEAD_TILES);
    work.lanes = Smaller(LANES, HEADS - work.head);
    work.request = static_cast<uint32_t>(rowRequest.GetValue(work.row));
    const uint32_t length = static_cast<uint32_t>(positions.GetValue(work.row) + 1);
    const uint32_t share = Pieces(Pieces(length, BLOCK_TOKENS), SPLITS) * BLOCK_TOKENS;
    work.begin = Smaller(work.split * share, length);
    work.end = Smaller(work.begin + share, length);
    return work;
}
"""

_LOADS = """\
__aicore__ inline LocalTensor<Element> Queries(uint32_t column) const {
    return LocalTensor<Element>(TPosition::A1, QUERY_L1 + LANES * column * sizeof(Element),
                                LANES * (LATENT + ROPE - column));
}
// Latent vectors of a slot: keys and values.
__aicore__ inline LocalTensor<Element> Values(uint32_t slot) const {
    return LocalTensor<Element>(TPosition::A1, slot * KEY_SLOT, KEY_TILE * VALUE_PITCH);
}
__aicore__ inline LocalTensor<Element> Rope(uint32_t slot) const {
    return LocalTensor<Element>(
        TPosition::A1, slot * KEY_SLOT + KEY_TILE * VALUE_PITCH * sizeof(Element),
        KEY_TILE * ROPE);
}

__aicore__ inline void LoadQueries(const Work& work) const {
    const uint64_t row = work.row;
    WaitFlag<HardEvent::MTE1_MTE2>(QUERIES);
    LoadSlabs(Queries(0), qLatent[Q_LATENT_OFFSET + row * Q_LATENT_ROW +
                                  work.head * Q_LATENT_HEAD],
              work.lanes, LATENT, Q_LATENT_HEAD, LATENT);
    LoadSlabs(Queries(LATENT), qRope[Q_ROPE_OFFSET + row * Q_ROPE_ROW +
                                     work.head * Q_ROPE_HEAD],
              work.lanes, ROPE, Q_ROPE_HEAD, ROPE);
    SetFlag<HardEvent::MTE2_MTE1>(QUERIES);
    WaitFlag<HardEvent::MTE2_MTE1>(QUERIES);
}

__aicore__ inline void AddScores(CubeCore& cube, uint32_t slot, uint32_t keys,
                                 uint32_t lanes) const {
    cube.AddScores(Values(slot), VALUE_PITCH, Queries(0), LATENT, keys, lanes, true);
    cube.AddScores(Rope(slot), ROPE, Queries(LATENT), ROPE, keys, lanes, false);
}
"""

_STORE = """\
    // Sums and statistics of the item; no division yet.
    __aicore__ inline void Store(const Work& work, const Results& results) {
        const uint64_t row = static_cast<uint64_t>(work.split) * ROWS + work.row;
        const uint32_t head = work.head + firstLane;
        const uint32_t heads = Smaller(lanes, work.lanes - firstLane);
        Handoff<HardEvent::V_MTE3>();
        DataCopy(results.partial[(row * HEADS + head) * VALUES], output, heads * VALUES);
        DataCopy(results.maximum[row * STATISTICS_PITCH + head], maximum, lanes);
        DataCopy(results.total[row * STATISTICS_PITCH + head], total, lanes);
        Handoff<HardEvent::MTE3_V>();
    }
"""


def _write_inputs(out: CppWriter, plan: LatentDecodePlan) -> None:
    shape = plan.shape
    write_views(out, [("q_latent", shape.q_latent), ("q_rope", shape.q_rope)])
    arguments = {argument.name: argument for argument in _arguments(plan)}
    with out.block("struct Inputs", close="};"):
        names = ("q_latent", "q_rope", "latent_cache", "rope_cache", "block_table", "positions")
        write_tensors(out, [arguments[name] for name in (*names, "row_request", "sizes")])
        out.line()
        out.lines(_FIND.splitlines())
        out.line()
        out.lines(_LOADS.splitlines())
        out.line()
        _write_load_keys(out, plan)
    out.line()
    with out.block("struct Results", close="};"):
        write_tensors(out, [arguments[name] for name in ("partial", "maximum", "total")])
    out.line()


def _write_load_keys(out: CppWriter, plan: LatentDecodePlan) -> None:
    out.line("// A step lies in one cache block: KEY_TILE divides BLOCK_TOKENS.")
    with out.block(
        "__aicore__ inline void LoadKeys(const Work& work, uint32_t step, uint32_t slot) const"
    ):
        out.line("const uint32_t key = work.begin + step * KEY_TILE;")
        out.line("const uint32_t keys = KeysOf(work, step);")
        out.line("const uint64_t entry = work.request * MAX_BLOCKS + key / BLOCK_TOKENS;")
        out.line("const uint64_t block = static_cast<uint32_t>(blockTable.GetValue(entry));")
        out.line("const uint64_t token = block * BLOCK_TOKENS + key % BLOCK_TOKENS;")
        out.line("WaitFlag<HardEvent::MTE1_MTE2>(static_cast<int32_t>(slot));")
        write_load_values(out, plan.tiles, "Values(slot)", "latentCache[token * LATENT]", "LATENT")
        out.line("LoadSlabs(Rope(slot), ropeCache[token * ROPE], keys, ROPE, ROPE, ROPE);")
        out.line("SetFlag<HardEvent::MTE2_MTE1>(static_cast<int32_t>(slot));")
