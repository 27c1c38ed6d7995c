"""The text that brings together the keys of a row in a draft tree.

The keys before the tree follow each other in cache blocks. Those in the tree are the row's path
from the root: some of the entries that a step has written, one copy each. In L1 they stand in the
order of the text, so that nothing behind the loads knows of a tree.
"""

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.kernels.attention_codes_text import write_load_decoded
from ascendfx.codegen.ascendc.kernels.attention_tiles import AttentionTiles
from ascendfx.codegen.ascendc.kernels.replace_once import replace_once

_LOAD_ROWS = """\
// GM rows to rows of L1 slabs from `first` on, and the last one to `more` rows behind it, too.
__aicore__ inline void LoadRows(const LocalTensor<Element>& slabs, const GlobalTensor<Element>& gm,
                                uint32_t first, uint32_t rows, uint32_t more, uint32_t width,
                                uint32_t stride, uint32_t pitch) {
    Nd2NzParams copy;
    copy.dValue = width;
    copy.srcNdMatrixStride = 0;
    copy.srcDValue = stride;
    copy.dstNzC0Stride = 16;
    copy.dstNzNStride = 1;
    copy.dstNzMatrixStride = K0;
    copy.ndNum = 1;
    const uint32_t end = first + rows;
    for (uint32_t row = first; row < end; row += copy.nValue) {
        const uint32_t place = row % 16;
        copy.nValue = Smaller(16 - place, end - row);
        DataCopy(slabs[(row - place) * pitch + place * K0],
                 gm[static_cast<uint64_t>(row - first) * stride], copy);
    }
    if (more > 0) {
        copy.ndNum = more;
        copy.nValue = 1;
        DataCopy(slabs[(end - end % 16) * pitch + end % 16 * K0],
                 gm[static_cast<uint64_t>(rows - 1) * stride], copy);
    }
}
"""

_LOAD_KEYS = """\
// Keys of one step: a part of one cache block, then entries of the tree. A short last slab is
// filled with copies of the last key: finite numbers.
__aicore__ inline void LoadKeys(const Work& work, uint32_t step, uint32_t slot) const {
    const uint32_t key = work.begin + step * KEY_TILE;
    const uint32_t end = key + KeysOf(work, step);
    const uint32_t more = Pad16(end - key) - (end - key);
    WaitFlag<HardEvent::MTE1_MTE2>(static_cast<int32_t>(slot));
    if (key < work.before) {
        const uint32_t keys = Smaller(end, work.before) - key;
        LoadEntries(work, slot, key, 0, keys, key + keys == end ? more : 0);
    }
    uint32_t next = work.before;
    for (uint32_t node = 0; work.ancestors >> node != 0; ++node) {
        if ((work.ancestors >> node) % 2 == 1) {
            if (next >= key && next < end) {
                LoadEntries(work, slot, work.before + node, next - key, 1,
                            next + 1 == end ? more : 0);
            }
            next += 1;
        }
    }
    SetFlag<HardEvent::MTE2_MTE1>(static_cast<int32_t>(slot));
}
"""


_DECODED = "                                const GlobalTensor<Element>& decoded)"


def write_load_rows(out: CppWriter) -> None:
    """Write the copy of rows to any rows of slabs."""
    out.lines(_LOAD_ROWS.splitlines())
    out.line()


def write_tree_loads(out: CppWriter, tiles: AttentionTiles) -> None:
    """Write ``LoadEntries`` and ``LoadKeys``; half a square of float is completed with column 0."""
    copies = ["LoadRows(Values(slot), latent, row, rows, more, VALUES, LATENT, VALUE_PITCH);"]
    if tiles.value_pitch != tiles.value_width:
        slabs = "Values(slot)[VALUES * 16]"
        copies.append(f"LoadRows({slabs}, latent, row, rows, more, K0, LATENT, VALUE_PITCH);")
    copies.insert(0, "const GlobalTensor<Element> latent = latentCache[token * LATENT];")
    out.line("// Entries of one cache block, from place `entry` of the request on.")
    with out.block(
        "__aicore__ inline void LoadEntries(const Work& work, uint32_t slot, uint32_t entry, "
        "uint32_t row, uint32_t rows, uint32_t more) const"
    ):
        out.line("const uint64_t column = work.request * MAX_BLOCKS + entry / BLOCK_TOKENS;")
        out.line("const uint64_t block = static_cast<uint32_t>(blockTable.GetValue(column));")
        out.line("const uint64_t token = block * BLOCK_TOKENS + entry % BLOCK_TOKENS;")
        out.lines([] if tiles.codes else copies)
        out.line(
            "LoadRows(Rope(slot), ropeCache[token * ROPE], row, rows, more, ROPE, ROPE, ROPE);"
        )
    out.line()
    if not tiles.codes:
        out.lines(_LOAD_KEYS.splitlines())
        return
    decoded = CppWriter()
    write_load_decoded(decoded, tiles)
    last = "    SetFlag<HardEvent::MTE2_MTE1>(static_cast<int32_t>(slot));\n"
    taken = "".join(f"    {line}\n" for line in decoded.text().splitlines())
    changes = (
        ("uint32_t step, uint32_t slot)", "uint32_t step, uint32_t slot,\n" + _DECODED),
        (last, "    const uint32_t keys = end - key;\n" + taken + last),
    )
    out.lines(replace_once(_LOAD_KEYS, *changes).splitlines())
