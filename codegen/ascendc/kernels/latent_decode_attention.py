"""Decode attention over a paged latent cache, the keys of a row split over groups of cores.

For row ``t`` of request ``row_request[t]`` at position ``positions[t]``, head ``h``::

    score[j] = scale * (q_latent[t, h] . latent[j] + q_rope[t, h] . rope[j])   j <= positions[t]
    out[t, h] = sum_j softmax(score)[j] * latent[j]

A split covers an equal share of the row's cache blocks and writes ``sum_j exp(score - m) latent``,
``m`` and ``l = sum_j exp(score - m)``; `combine_attention_splits` merges them. A split without keys
writes 0, NEGLIGIBLE and 0.

With ``tree``, the last keys of a row are nodes of a draft tree that stand apart in the cache. They
are brought together when keys are loaded: scores, softmax and splits are those of a chain, bit for
bit, and nobody reads entries of other branches, whatever they hold.

With ``codes``, the latent cache holds int8 codes, and ``scale_cache`` a number for each token of
it: ``latent[j] = round(codes[j] * scale_cache[j])`` in the format of the queries, see
`attention_codes_text`.

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
from ascendfx.codegen.ascendc.kernels.attention_codes_text import (
    CUBE_CHANGES,
    VECTOR_CHANGES,
    decode_text,
)
from ascendfx.codegen.ascendc.kernels.attention_cube_text import write_cube_core
from ascendfx.codegen.ascendc.kernels.attention_frame import (
    memory_comment,
    mixed_kernel,
    write_head,
    write_tile_constants,
)
from ascendfx.codegen.ascendc.kernels.attention_requests import LATENT_DECODE, latent_request
from ascendfx.codegen.ascendc.kernels.attention_steps_text import write_runs, write_step_sizes
from ascendfx.codegen.ascendc.kernels.attention_tiles import (
    AttentionTiles,
    check_row_stride,
    plan_attention_tiles,
)
from ascendfx.codegen.ascendc.kernels.attention_vector_text import write_vector_core
from ascendfx.codegen.ascendc.kernels.latent_decode_text import STORE, write_inputs, write_work
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
        tree: Whether each row has a set of nodes that it sees; see `RaggedAttention`.
        codes: Whether the latent cache holds codes.
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
    tree: bool = False
    codes: bool = False


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
        codes=shape.codes,
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
    partial, maximum, total, sizes, workspace``; with ``tree``, ``ancestors`` after ``row_request``,
    with ``codes``, ``scale_cache`` after ``latent_cache``.
    """
    arguments = _arguments(plan)
    out = CppWriter()
    write_head(out, _comment(plan, name), _constants(plan), plan.shape.scale)
    write_tile_constants(out, plan.tiles, plan.target)
    write_cube_core(out, plan.tiles)
    write_work(out, tree=plan.shape.tree)
    write_step_sizes(out)
    views = {"q_latent": plan.shape.q_latent, "q_rope": plan.shape.q_rope}
    write_inputs(out, plan.tiles, views, arguments, tree=plan.shape.tree)
    if plan.shape.codes:
        decode = decode_text(plan.shape.dtype, tree=plan.shape.tree)
        write_vector_core(out, plan.tiles, (STORE, decode))
        write_runs(out, causal=False, cube=CUBE_CHANGES, vector=VECTOR_CHANGES)
    else:
        write_vector_core(out, plan.tiles, (STORE,))
        write_runs(out, causal=False)
    with mixed_kernel(out, name, arguments):
        out.line("Inputs inputs;")
        given = (each.name for each in arguments if each.direction is Direction.IN)
        out.line(f"inputs.Open({', '.join(given)});")
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
    stored = DType.I8 if shape.codes else shape.dtype
    tree = (KernelArgument("ancestors", DType.I32, Direction.IN, rows),) if shape.tree else ()
    return (
        query("q_latent", shape.q_latent, shape.latent),
        query("q_rope", shape.q_rope, shape.rope),
        KernelArgument("latent_cache", stored, Direction.IN, tokens * shape.latent),
        *((KernelArgument("scale_cache", DType.F32, Direction.IN, tokens),) * shape.codes),
        KernelArgument("rope_cache", shape.dtype, Direction.IN, tokens * shape.rope),
        KernelArgument("block_table", DType.I32, Direction.IN, shape.requests * shape.max_blocks),
        KernelArgument("positions", DType.I32, Direction.IN, rows),
        KernelArgument("row_request", DType.I32, Direction.IN, rows),
        *tree,
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
        *(("// The last keys of a row are nodes of a draft tree: its ancestors.",) * shape.tree),
        *(("// Latent vectors are int8 codes with a scale per token.",) * shape.codes),
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
