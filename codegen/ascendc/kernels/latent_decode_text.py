"""The text of the work items of decode attention, and of how their queries and keys are loaded."""

from collections.abc import Mapping, Sequence

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernel import Direction, KernelArgument
from ascendfx.codegen.ascendc.kernels.attention_codes_text import (
    write_load_codes,
    write_load_decoded,
)
from ascendfx.codegen.ascendc.kernels.attention_cube_text import write_load_values
from ascendfx.codegen.ascendc.kernels.attention_frame import write_tensors, write_views
from ascendfx.codegen.ascendc.kernels.attention_tiles import AttentionTiles
from ascendfx.codegen.ascendc.kernels.attention_tree_text import write_load_rows, write_tree_loads
from ascendfx.codegen.ascendc.kernels.matrix_view import MatrixView
from ascendfx.codegen.ascendc.kernels.replace_once import replace_once

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

_WORK_IN_TREE = replace_once(
    _WORK,
    (
        "};\n",
        """\
    uint32_t ancestors;  // nodes among the keys, as bits
    uint32_t before;     // keys before the first of them, and where the tree stands
};
""",
    ),
)

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

_FIND_IN_TREE = replace_once(
    _FIND,
    (
        "    return work;\n",
        """\
    work.ancestors = static_cast<uint32_t>(ancestors.GetValue(work.row));
    work.before = length;
    for (uint32_t nodes = work.ancestors; nodes != 0; nodes >>= 1) {
        work.before -= nodes % 2;
    }
    return work;
""",
    ),
)

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

STORE = """\
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


def write_work(out: CppWriter, *, tree: bool) -> None:
    """Write ``struct Work``."""
    out.lines((_WORK_IN_TREE if tree else _WORK).splitlines())
    out.line()


def write_inputs(
    out: CppWriter,
    tiles: AttentionTiles,
    views: Mapping[str, MatrixView],
    arguments: Sequence[KernelArgument],
    *,
    tree: bool,
) -> None:
    """Write ``struct Inputs`` and ``struct Results``."""
    if tree:
        write_load_rows(out)
    write_views(out, views.items())
    with out.block("struct Inputs", close="};"):
        write_tensors(out, [each for each in arguments if each.direction is Direction.IN])
        out.line()
        out.lines((_FIND_IN_TREE if tree else _FIND).splitlines())
        out.line()
        out.lines(_LOADS.splitlines())
        out.line()
        if tiles.codes:
            write_load_codes(out, tree=tree)
        if tree:
            write_tree_loads(out, tiles)
        else:
            _write_load_keys(out, tiles)
    out.line()
    with out.block("struct Results", close="};"):
        write_tensors(out, [each for each in arguments if each.direction is Direction.OUT])
    out.line()


def _write_load_keys(out: CppWriter, tiles: AttentionTiles) -> None:
    out.line("// A step lies in one cache block: KEY_TILE divides BLOCK_TOKENS.")
    slot = "uint32_t slot, const GlobalTensor<Element>& decoded" if tiles.codes else "uint32_t slot"
    with out.block(
        f"__aicore__ inline void LoadKeys(const Work& work, uint32_t step, {slot}) const"
    ):
        out.line("const uint32_t key = work.begin + step * KEY_TILE;")
        out.line("const uint32_t keys = KeysOf(work, step);")
        out.line("const uint64_t entry = work.request * MAX_BLOCKS + key / BLOCK_TOKENS;")
        out.line("const uint64_t block = static_cast<uint32_t>(blockTable.GetValue(entry));")
        out.line("const uint64_t token = block * BLOCK_TOKENS + key % BLOCK_TOKENS;")
        out.line("WaitFlag<HardEvent::MTE1_MTE2>(static_cast<int32_t>(slot));")
        if not tiles.codes:
            write_load_values(out, tiles, "Values(slot)", "latentCache[token * LATENT]", "LATENT")
        out.line("LoadSlabs(Rope(slot), ropeCache[token * ROPE], keys, ROPE, ROPE, ROPE);")
        if tiles.codes:
            write_load_decoded(out, tiles)
        out.line("SetFlag<HardEvent::MTE2_MTE1>(static_cast<int32_t>(slot));")
