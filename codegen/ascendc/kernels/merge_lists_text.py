"""The Ascend C text that merges sorted lists: what kernels that sort have in common."""

MERGE_LISTS = """\
// Merges two to four sorted lists of `length` records, the last one of what is left of `records`;
// `pitch` floats from list to list.
__aicore__ inline void MergeLists(const LocalTensor<float>& to, const LocalTensor<float>& from,
                                  uint32_t pitch, uint32_t length, uint32_t records) {
    const uint32_t lists = (records + length - 1) / length;
    MrgSort4Info merge;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint32_t left = i < lists ? records - i * length : 0;
        merge.elementLengths[i] = static_cast<uint16_t>(left < length ? left : length);
    }
    merge.ifExhaustedSuspension = false;
    merge.validBit = static_cast<uint16_t>((1 << lists) - 1);
    merge.repeatTimes = 1;
    MrgSortSrcList<float> source;
    source.src1 = from;
    source.src2 = from[pitch];
    source.src3 = lists > 2 ? from[2 * pitch] : from;
    source.src4 = lists > 3 ? from[3 * pitch] : from;
    MrgSort(to, source, merge);
}
"""
"""A helper function; a record is a key and a payload."""
