"""Causal attention of one request's chunk of tokens over its expanded keys and values.

For chunk row ``i`` at position ``p_i = positions[0] + i`` and head ``h``::

    score[j] = scale * (q_nope[i, h] . k_nope[j, h] + q_rope[i, h] . k_rope[j])    j <= p_i
    out[i, h] = sum_j softmax(score)[j] * v[j, h]

A work item is a tile of query rows of one head; key tiles above the diagonal are skipped, and on
the diagonal a penalty of ``NEGLIGIBLE`` per position is added to the scores.

Source: FlashAttention-2 (Dao, 2023); lay-out on the chip: `attention_tiles`.
"""

from dataclasses import dataclass

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
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
from ascendfx.codegen.ascendc.kernels.attention_requests import CHUNKED_PREFILL, chunk_request
from ascendfx.codegen.ascendc.kernels.attention_steps_text import write_runs, write_step_sizes
from ascendfx.codegen.ascendc.kernels.attention_tiles import (
    AttentionTiles,
    check_row_stride,
    plan_attention_tiles,
)
from ascendfx.codegen.ascendc.kernels.attention_vector_text import (
    divide_rows_text,
    write_vector_core,
)
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.kernels.vector_kernel import SIZES_ARGUMENT, check_positive
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.tensor_type import DType

_FAMILY = CHUNKED_PREFILL


@dataclass(frozen=True, slots=True)
class ChunkedPrefillShape:
    """The problem; in every view a row is a token and a matrix of the batch is a head.

    Attributes:
        rows: Query rows of the chunk.
        context: Keys: tokens before the chunk and the chunk itself.
        heads: Query heads.
        nope: Columns of ``q_nope`` and ``k_nope``.
        rope: Columns of ``q_rope`` and ``k_rope``.
        value: Columns of ``v`` and of the result.
        q_nope: Where ``[rows, heads, nope]`` lies.
        q_rope: Where ``[rows, heads, rope]`` lies.
        k_nope: Where ``[context, heads, nope]`` lies.
        v: Where ``[context, heads, value]`` lies.
        scale: Softmax scale.
        dtype: Format of all tensors.
    """

    rows: DeviceSize
    context: DeviceSize
    heads: int
    nope: int
    rope: int
    value: int
    q_nope: MatrixView
    q_rope: MatrixView
    k_nope: MatrixView
    v: MatrixView
    scale: float
    dtype: DType

    @property
    def views(self) -> tuple[tuple[str, MatrixView, int, int], ...]:
        """Name, view, row capacity and columns of the tensors with heads."""
        rows, context = self.rows.capacity, self.context.capacity
        return (
            ("q_nope", self.q_nope, rows, self.nope),
            ("q_rope", self.q_rope, rows, self.rope),
            ("k_nope", self.k_nope, context, self.nope),
            ("v", self.v, context, self.value),
        )


@dataclass(frozen=True, slots=True)
class ChunkedPrefillPlan:
    """How the work is cut.

    Attributes:
        shape: The problem.
        tiles: Tile sizes; a lane is a query row.
        groups: Groups of one cube and two vector cores.
        target: The chip.
    """

    shape: ChunkedPrefillShape
    tiles: AttentionTiles
    groups: int
    target: Target

    @property
    def workspace_bytes(self) -> int:
        """Bytes of the workspace argument."""
        return self.groups * self.tiles.workspace_bytes


def plan_chunked_prefill_attention(
    shape: ChunkedPrefillShape, target: Target
) -> ChunkedPrefillPlan:
    """Choose tiles of query rows and keys.

    Raises:
        GraphError: A size, format or view is not supported, or no tile fits.
    """
    rows, context = shape.rows.capacity, shape.context.capacity
    check_positive(_FAMILY, rows=rows, context=context, heads=shape.heads)
    for name, view, _, _ in shape.views:
        check_row_stride(_FAMILY, name, view.row_stride)
    request = chunk_request(
        shape.dtype, rows=rows, nope=shape.nope, rope=shape.rope, value=shape.value
    )
    tiles = plan_attention_tiles(request, target)
    items = shape.heads * -(-rows // tiles.lanes)
    return ChunkedPrefillPlan(shape, tiles, min(target.cube_cores, items), target)


def emit_chunked_prefill_attention(plan: ChunkedPrefillPlan, name: str) -> Kernel:
    """Return the kernel.

    Arguments: ``q_nope, q_rope, k_nope, v, k_rope, positions, out, sizes, workspace``.
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
    methods = (_MASK, divide_rows_text(), _store_text(plan.shape.dtype))
    write_vector_core(out, plan.tiles, methods)
    write_runs(out, causal=True)
    with mixed_kernel(out, name, arguments):
        out.line("Inputs inputs;")
        inputs = ", ".join(argument.name for argument in arguments if argument.name in _INPUTS)
        out.line(f"inputs.Open({inputs});")
        with out.block("if ASCEND_IS_AIC"):
            out.line("RunCube(inputs, workspace);")
        with out.block("if ASCEND_IS_AIV"):
            out.line("Results results;")
            out.line("results.Open(out);")
            out.line("RunVector(inputs, results, workspace);")
    return Kernel(name, _FAMILY, KernelKind.MIX, plan.groups, arguments, out.text())


_INPUTS = ("q_nope", "q_rope", "k_nope", "v", "k_rope", "positions", "sizes")


def _arguments(plan: ChunkedPrefillPlan) -> tuple[KernelArgument, ...]:
    shape = plan.shape
    rows, context = shape.rows.capacity, shape.context.capacity
    views = tuple(
        KernelArgument(
            name,
            shape.dtype,
            Direction.IN,
            view.size(rows=count, columns=columns, batch=shape.heads),
        )
        for name, view, count, columns in shape.views
    )
    return (
        *views,
        KernelArgument("k_rope", shape.dtype, Direction.IN, context * shape.rope),
        KernelArgument("positions", DType.I32, Direction.IN, rows),
        KernelArgument("out", shape.dtype, Direction.OUT, rows * shape.heads * shape.value),
        SIZES_ARGUMENT,
        KernelArgument("workspace", DType.I8, Direction.WORKSPACE, plan.workspace_bytes),
    )


def _comment(plan: ChunkedPrefillPlan, name: str) -> tuple[str, ...]:
    shape = plan.shape
    return (
        f"// {name}: causal attention of {shape.heads} heads, keys {shape.nope} + {shape.rope}, "
        f"values {shape.value} x {shape.dtype.value},",
        f"// at most {shape.rows.capacity} rows over {shape.context.capacity} keys; items (head, "
        f"row tile) over {plan.groups} groups, long ones first.",
        *memory_comment(plan.tiles, plan.groups),
    )


def _constants(plan: ChunkedPrefillPlan) -> dict[str, int]:
    shape = plan.shape
    return {
        "ROWS_SLOT": shape.rows.slot,
        "CONTEXT_SLOT": shape.context.slot,
        "HEADS": shape.heads,
        "GROUPS": plan.groups,
        "NOPE": shape.nope,
        "ROPE": shape.rope,
    }


_WORK = """\
// One work item: keys [begin, end) for `lanes` query rows of one head.
struct Work {
    uint32_t head;
    uint32_t row;       // first query row of the tile
    uint32_t lanes;
    uint32_t position;  // of that row
    uint32_t begin;
    uint32_t end;
};
"""

_FIND = """\
__aicore__ inline uint32_t Rows() const {
    return static_cast<uint32_t>(sizes.GetValue(ROWS_SLOT));
}
__aicore__ inline uint32_t Items() const {
    return Pieces(Rows(), LANES) * HEADS;
}

// Last row tile first: it has the most keys.
__aicore__ inline Work Find(uint32_t item) const {
    Work work;
    const uint32_t rows = Rows();
    work.head = item % HEADS;
    work.row = (Pieces(rows, LANES) - 1 - item / HEADS) * LANES;
    work.lanes = Smaller(LANES, rows - work.row);
    work.position = static_cast<uint32_t>(positions.GetValue(0)) + work.row;
    work.begin = 0;
    work.end = Smaller(work.position + work.lanes,
                       static_cast<uint32_t>(sizes.GetValue(CONTEXT_SLOT)));
    return work;
}
"""

_LOADS = """\
__aicore__ inline LocalTensor<Element> Queries(uint32_t column) const {
    return LocalTensor<Element>(TPosition::A1, QUERY_L1 + LANES * column * sizeof(Element),
                                LANES * (NOPE + ROPE - column));
}
// A slot holds the keys without position, the rotary keys and the values of a step.
__aicore__ inline LocalTensor<Element> Keys(uint32_t slot, uint32_t column,
                                            uint32_t width) const {
    return LocalTensor<Element>(
        TPosition::A1, slot * KEY_SLOT + KEY_TILE * column * sizeof(Element),
        KEY_TILE * width);
}
__aicore__ inline LocalTensor<Element> Values(uint32_t slot) const {
    return Keys(slot, NOPE + ROPE, VALUE_PITCH);
}

__aicore__ inline void LoadQueries(const Work& work) const {
    const uint64_t row = work.row;
    WaitFlag<HardEvent::MTE1_MTE2>(QUERIES);
    LoadSlabs(Queries(0), qNope[Q_NOPE_OFFSET + row * Q_NOPE_ROW + work.head * Q_NOPE_HEAD],
              work.lanes, NOPE, Q_NOPE_ROW, NOPE);
    LoadSlabs(Queries(NOPE), qRope[Q_ROPE_OFFSET + row * Q_ROPE_ROW +
                                   work.head * Q_ROPE_HEAD],
              work.lanes, ROPE, Q_ROPE_ROW, ROPE);
    SetFlag<HardEvent::MTE2_MTE1>(QUERIES);
    WaitFlag<HardEvent::MTE2_MTE1>(QUERIES);
}

__aicore__ inline void AddScores(CubeCore& cube, uint32_t slot, uint32_t keys,
                                 uint32_t lanes) const {
    cube.AddScores(Keys(slot, 0, NOPE), NOPE, Queries(0), NOPE, keys, lanes, true);
    cube.AddScores(Keys(slot, NOPE, ROPE), ROPE, Queries(NOPE), ROPE, keys, lanes, false);
}
"""

_MASK = """\
    // Adds NEGLIGIBLE to tile[key, lane] once per position the key is ahead of the query.
    __aicore__ inline void Mask(const Work& work, uint32_t step) {
        LocalTensor<float> distance(TPosition::VECCALC, DISTANCE, KEY_TILE * VECTOR_LANES);
        const int32_t ahead = static_cast<int32_t>(work.position + firstLane) -
                              static_cast<int32_t>(work.begin + step * KEY_TILE);
        if (step == 0) {  // distance[key, lane] = lane - key, for this number of lanes
            for (uint32_t lane = 0; lane < lanes; ++lane) {  // no CreateVecIndex in static style
                distance.SetValue(lane, static_cast<float>(lane));
            }
            for (uint32_t rows = 1; rows < KEY_TILE; rows *= 2) {
                Adds(distance[rows * lanes], distance, -static_cast<float>(rows),
                     static_cast<int32_t>(rows * lanes));
            }
        }
        if (ahead >= static_cast<int32_t>(KEY_TILE) - 1) {
            return;  // every lane sees every key of the step
        }
        const uint32_t half = KEY_TILE / 2 * lanes;
        const int32_t count = static_cast<int32_t>(half);
        for (uint32_t part = 0; part < 2; ++part) {
            Adds(fold, distance[part * half], static_cast<float>(ahead), count);
            Mins(fold, fold, 0.0f, count);
            Muls(fold, fold, -NEGLIGIBLE, count);
            Add(tile[part * half], tile[part * half], fold, count);
        }
    }
"""


_STORE_HEAD = """\
    // output / total, rounded, to out[row, head, :].
    __aicore__ inline void Store(const Work& work, const Results& results) {
        DivideRows(total);
        const uint32_t rows = Smaller(lanes, work.lanes - firstLane);
        const uint64_t first = work.row + firstLane;
        DataCopyExtParams copy;
        copy.blockLen = VALUES * sizeof(Element);
        copy.srcStride = 0;
        copy.dstStride = (HEADS - 1) * VALUES * sizeof(Element);
"""

_STORE_F32 = """\
        copy.blockCount = rows;
        Handoff<HardEvent::V_MTE3>();
        DataCopyPad(results.out[(first * HEADS + work.head) * VALUES], output, copy);
        Handoff<HardEvent::MTE3_V>();
    }
"""

_STORE_BF16 = """\
        LocalTensor<Element> rounded(TPosition::VECOUT, TILE, 4 * HALF_TILE);
        for (uint32_t lane = 0; lane < rows; lane += 2 * HALF_TILE / VALUES) {
            copy.blockCount = Smaller(2 * HALF_TILE / VALUES, rows - lane);
            Cast(rounded, output[lane * VALUES], RoundMode::CAST_RINT, copy.blockCount * VALUES);
            Handoff<HardEvent::V_MTE3>();
            DataCopyPad(results.out[((first + lane) * HEADS + work.head) * VALUES], rounded, copy);
            Handoff<HardEvent::MTE3_V>();
        }
    }
"""


def _store_text(dtype: DType) -> str:
    """Return ``VectorCore::Store``: divide, round, and write rows of one head."""
    return _STORE_HEAD + (_STORE_BF16 if dtype is DType.BF16 else _STORE_F32)


def _write_inputs(out: CppWriter, plan: ChunkedPrefillPlan) -> None:
    write_views(out, [(name, view) for name, view, _, _ in plan.shape.views])
    arguments = {argument.name: argument for argument in _arguments(plan)}
    with out.block("struct Inputs", close="};"):
        write_tensors(out, [arguments[name] for name in _INPUTS])
        out.line()
        out.lines(_FIND.splitlines())
        out.line()
        out.lines(_LOADS.splitlines())
        out.line()
        _write_load_keys(out, plan)
    out.line()
    with out.block("struct Results", close="};"):
        write_tensors(out, [arguments["out"]])
    out.line()


def _write_load_keys(out: CppWriter, plan: ChunkedPrefillPlan) -> None:
    with out.block(
        "__aicore__ inline void LoadKeys(const Work& work, uint32_t step, uint32_t slot) const"
    ):
        out.line("const uint64_t key = work.begin + step * KEY_TILE;")
        out.line("const uint32_t keys = KeysOf(work, step);")
        out.line(
            "const uint64_t nope = K_NOPE_OFFSET + key * K_NOPE_ROW + work.head * K_NOPE_HEAD;"
        )
        out.line("const uint64_t value = V_OFFSET + key * V_ROW + work.head * V_HEAD;")
        out.line("WaitFlag<HardEvent::MTE1_MTE2>(static_cast<int32_t>(slot));")
        out.line("LoadSlabs(Keys(slot, 0, NOPE), kNope[nope], keys, NOPE, K_NOPE_ROW, NOPE);")
        out.line("LoadSlabs(Keys(slot, NOPE, ROPE), kRope[key * ROPE], keys, ROPE, ROPE, ROPE);")
        write_load_values(out, plan.tiles, "Values(slot)", "v[value]", "V_ROW")
        out.line("SetFlag<HardEvent::MTE2_MTE1>(static_cast<int32_t>(slot));")
