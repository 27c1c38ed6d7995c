"""Device functions that emitted chains use; only those called are written."""

from collections.abc import Set as AbstractSet

_LINES = """\
// target[l, :] = a[l, :] {name} b[l, :] for `lines` lines of `columns`, one instruction per 64
// columns. `pitch`es are elements from line to line, 0 for the same line again; `block` 0 means
// that a line's first block stands for all its columns.
__aicore__ inline void {name}Lines(const LocalTensor<float>& target, const LocalTensor<float>& a,
                                const LocalTensor<float>& b, uint32_t lines, uint32_t columns,
                                uint32_t pitch, uint32_t aPitch, uint32_t aBlock,
                                uint32_t bPitch, uint32_t bBlock) {{
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = static_cast<uint8_t>(aBlock);
    repeat.src1BlkStride = static_cast<uint8_t>(bBlock);
    repeat.dstRepStride = static_cast<uint8_t>(pitch / 8);
    repeat.src0RepStride = static_cast<uint8_t>(aPitch / 8);
    repeat.src1RepStride = static_cast<uint8_t>(bPitch / 8);
    for (uint32_t line = 0; line < lines; line += 255) {{
        const uint32_t count = lines - line < 255 ? lines - line : 255;
        for (uint32_t column = 0; column < columns; column += 64) {{
            const uint64_t mask = columns - column < 64 ? columns - column : 64;
            {name}(target[line * pitch + column], a[line * aPitch + column * aBlock],
                b[line * bPitch + column * bBlock], mask, static_cast<uint8_t>(count), repeat);
        }}
    }}
}}
"""

_COLUMNS = """\
// target[l, :] = a[l, :] {name} b[l, :] for `lines` lines of `columns`, one instruction per line
// and 255 * 64 columns. `pitch`es are elements from line to line, 0 for the same line again;
// `block` 0 means that a line's first block stands for all its columns.
__aicore__ inline void {name}Columns(const LocalTensor<float>& target, const LocalTensor<float>& a,
                                  const LocalTensor<float>& b, uint32_t lines, uint32_t columns,
                                  uint32_t pitch, uint32_t aPitch, uint32_t aBlock,
                                  uint32_t bPitch, uint32_t bBlock) {{
    BinaryRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.src0BlkStride = static_cast<uint8_t>(aBlock);
    repeat.src1BlkStride = static_cast<uint8_t>(bBlock);
    repeat.dstRepStride = 8;
    repeat.src0RepStride = static_cast<uint8_t>(8 * aBlock);
    repeat.src1RepStride = static_cast<uint8_t>(8 * bBlock);
    for (uint32_t line = 0; line < lines; ++line) {{
        for (uint32_t column = 0; column < columns;) {{
            const uint32_t left = columns - column;
            const uint32_t count = left / 64 < 255 ? left / 64 : 255;
            const uint32_t done = count == 0 ? left : count * 64;
            const uint64_t mask = count == 0 ? left : 64;
            {name}(target[line * pitch + column], a[line * aPitch + column * aBlock],
                b[line * bPitch + column * bBlock], mask,
                static_cast<uint8_t>(count == 0 ? 1 : count), repeat);
            column += done;
        }}
    }}
}}
"""

_COPY_BLOCKS = """\
// Copies `blocks` blocks of 32 bytes of every line inside local memory; gaps are in blocks.
__aicore__ inline void CopyBlocks(const LocalTensor<float>& target,
                                  const LocalTensor<float>& source, uint32_t lines,
                                  uint32_t blocks, uint32_t sourceGap, uint32_t targetGap) {
    DataCopyParams copy;
    copy.blockCount = static_cast<uint16_t>(lines);
    copy.blockLen = static_cast<uint16_t>(blocks);
    copy.srcStride = static_cast<uint16_t>(sourceGap);
    copy.dstStride = static_cast<uint16_t>(targetGap);
    DataCopy(target, source, copy);
}
"""

_TAKE_EVERY_SECOND = """\
// target[i] = source[2 * i + first] for a source of `count` elements.
__aicore__ inline void TakeEverySecond(const LocalTensor<float>& target,
                                       const LocalTensor<float>& source, uint8_t first,
                                       uint32_t count) {
    GatherMaskParams once;
    once.src0BlockStride = 1;
    once.repeatTimes = 1;
    once.src0RepeatStride = 8;
    once.src1RepeatStride = 0;
    uint64_t kept = 0;
    const uint8_t pattern = first + 1;
    GatherMask(target, source, pattern, true, count, once, kept);
}
"""

_SPREAD = """\
// Writes each of `count` numbers eight times.
__aicore__ inline void SpreadNumbers(const LocalTensor<float>& target,
                                     const LocalTensor<float>& source, uint32_t count) {
    BrcbRepeatParams repeat;
    repeat.dstBlkStride = 1;
    repeat.dstRepStride = 8;
    Brcb(target, source, static_cast<uint8_t>((count + 7) / 8), repeat);
}
"""


def device_functions_text(used: AbstractSet[str]) -> str:
    """Return the definitions of the functions named in ``used``, sorted."""
    fixed = {
        "CopyBlocks": _COPY_BLOCKS,
        "SpreadNumbers": _SPREAD,
        "TakeEverySecond": _TAKE_EVERY_SECOND,
    }
    texts: list[str] = []
    for name in sorted(used):
        if name in fixed:
            texts.append(fixed[name])
        elif name.endswith("Lines"):
            texts.append(_LINES.format(name=name.removesuffix("Lines")))
        else:
            texts.append(_COLUMNS.format(name=name.removesuffix("Columns")))
    return "\n".join(texts)
