"""The Ascend C text of `route_topk`."""

import math

from ascendfx.codegen.ascendc.cpp_writer import CppWriter
from ascendfx.codegen.ascendc.hardware_units import SORT_WIDTH
from ascendfx.codegen.ascendc.kernels.merge_lists_text import MERGE_LISTS
from ascendfx.codegen.ascendc.kernels.route_topk_plan import GroupScore, RouteTopkPlan, Scoring
from ascendfx.codegen.ascendc.kernels.vector_kernel import through_queue

KEEP_TOP = (
    MERGE_LISTS
    + """
// Merges the lists of 32 records in `to` four by four until one is left, in `to` again.
__aicore__ inline void KeepTop(LocalTensor<float>& to, LocalTensor<float>& from) {
    uint32_t pitch = 64;
    for (uint32_t lists = SLOTS / 32; lists > 1; lists = (lists + 3) / 4) {
        LocalTensor<float> sorted = to;
        to = from;
        from = sorted;
        for (uint32_t i = 0; i < lists; i += 4) {
            if (lists - i == 1) {
                DataCopy(to[i / 4 * 8 * KEPT], from[i * pitch], 2 * KEPT);
            } else {
                const uint32_t count = lists - i < 4 ? lists - i : 4;
                MergeLists(to[i / 4 * 8 * KEPT], from[i * pitch], pitch, KEPT, count * KEPT);
            }
        }
        pitch = 8 * KEPT;
    }
}
"""
)


def write_tables(out: CppWriter, plan: RouteTopkPlan) -> None:
    """Write everything that is the same for all rows."""
    routing = plan.routing
    for tensor, scalar in _tensors(plan):
        out.line(f"LocalTensor<{scalar}> {tensor} = {tensor}Buffer.Get<{scalar}>();")
    with out.block("for (uint32_t group = 0; group < GROUPS; ++group)"):
        out.line("LocalTensor<int32_t> part = index[group * GROUP_PITCH];")
        out.line("CreateVecIndex(part, static_cast<int32_t>(group * GROUP_SIZE), GROUP_PITCH);")
    out.line("CreateVecIndex(recordOffset, static_cast<int32_t>(0), 32);")
    out.line("Muls(recordOffset, recordOffset, static_cast<int32_t>(8), 32);")
    if routing.scoring is Scoring.SIGMOID:
        out.line("Duplicate(ones, 1.0f, static_cast<int32_t>(STEP_ROWS * ROW_PITCH));")
    if routing.has_masked_groups:
        pitch = "GROUP_LIST * 4" if plan.group_pitch > SORT_WIDTH else "GROUP_PITCH * 8"
        out.line("CreateVecIndex(groupIndex, static_cast<int32_t>(0), 32);")
        out.line(f"Muls(groupOffset, groupIndex, static_cast<int32_t>({pitch}), 32);")
        out.line("Duplicate(groupScore, LOWEST, 32);")
        out.line("Duplicate(allMasked, MASKED_VALUE, static_cast<int32_t>(SLOTS));")
    if plan.is_padded:
        out.line("// Slots beyond a group's experts read the lowest value behind the row.")
        out.line("Duplicate(selecting[ROW_PITCH], LOWEST, 8);")
        out.line("Muls(slotOffset, index, static_cast<int32_t>(4), static_cast<int32_t>(SLOTS));")
        with (
            out.block("for (uint32_t group = 0; group < GROUPS; ++group)"),
            out.block("for (uint32_t i = GROUP_SIZE; i < GROUP_PITCH; ++i)"),
        ):
            out.line(
                "slotOffset.SetValue(group * GROUP_PITCH + i, static_cast<int32_t>(ROW_PITCH * 4));"
            )
            if routing.has_masked_groups and routing.masked_value != -math.inf:
                out.line("allMasked.SetValue(group * GROUP_PITCH + i, LOWEST);")
    if routing.bias:
        with through_queue(out, "biasQueue", "biasLocal", "float"):
            out.line("CopyIn(biasLocal, biasGm, 1, EXPERTS * 4, 0, 0);")


def _tensors(plan: RouteTopkPlan) -> list[tuple[str, str]]:
    integers = {"index", "recordOffset", "weightOffset", "slotOffset", "groupIndex", "groupOffset"}
    names = [b.name.removesuffix("Buffer") for b in plan.buffers if b.name.endswith("Buffer")]
    return [(name, "int32_t" if name in integers else "float") for name in names]


def write_step(out: CppWriter, plan: RouteTopkPlan) -> None:
    """Write what happens to the rows of one step."""
    out.line("const uint32_t count = row + STEP_ROWS < last ? STEP_ROWS : last - row;")
    with through_queue(out, "scoreQueue", "scores", "float"):
        out.line("CopyIn(scores, logitsGm[row * EXPERTS], count, EXPERTS * 4, 0, 0);")
    if plan.routing.scoring is Scoring.SIGMOID:
        out.line("const int32_t elements = static_cast<int32_t>(count * ROW_PITCH);")
        out.line("Muls(scores, scores, -1.0f, elements);")
        out.line("Exp(scores, scores, elements);")
        out.line("Adds(scores, scores, 1.0f, elements);")
        out.line("Div(scores, ones, scores, elements);")
    out.line("LocalTensor<float> weightsLocal = weightQueue.AllocTensor<float>();")
    out.line("LocalTensor<int32_t> idsLocal = idQueue.AllocTensor<int32_t>();")
    with out.block("for (uint32_t i = 0; i < count; ++i)"):
        _write_row(out, plan)
    out.line("scoreQueue.FreeTensor(scores);")
    for queue, local, result in (("weight", "weights", "weights"), ("id", "ids", "ids")):
        scalar = "int32_t" if queue == "id" else "float"
        out.line(f"{queue}Queue.EnQue({local}Local);")
        out.line(f"{local}Local = {queue}Queue.DeQue<{scalar}>();")
        out.line(f"CopyOut({result}Gm[row * TOP_K], {local}Local, count, TOP_K * 4, 0, 0);")
        out.line(f"{queue}Queue.FreeTensor({local}Local);")


def _write_row(out: CppWriter, plan: RouteTopkPlan) -> None:
    routing = plan.routing
    out.line("LocalTensor<float> score = scores[i * ROW_PITCH];")
    if routing.scoring is Scoring.SOFTMAX:
        out.line("ReduceMax(statistic, score, work, static_cast<int32_t>(EXPERTS));")
        out.line("const float maximum = statistic.GetValue(0);")
        out.line("Adds(score, score, -maximum, static_cast<int32_t>(EXPERTS));")
        out.line("Exp(score, score, static_cast<int32_t>(EXPERTS));")
        out.line("ReduceSum(statistic, score, work, static_cast<int32_t>(EXPERTS));")
        out.line("const float sum = statistic.GetValue(0);")
        out.line("Muls(score, score, 1.0f / sum, static_cast<int32_t>(EXPERTS));")
    slots = "score"
    if routing.bias:
        out.line("Add(selecting, score, biasLocal, static_cast<int32_t>(EXPERTS));")
        slots = "selecting"
    if plan.is_padded:
        if not routing.bias:
            out.line("DataCopy(selecting, score, ROW_PITCH);")
        out.line("Gather(spread, selecting, slotOffset.ReinterpretCast<uint32_t>(), 0, SLOTS);")
        slots = "spread"
    if routing.has_masked_groups:
        _write_masking(out, plan, slots)
        slots = "masked"
    out.line("LocalTensor<float> records = recordA;")
    out.line("LocalTensor<float> spare = recordB;")
    out.line(f"Sort32(records, {slots}, index.ReinterpretCast<uint32_t>(), SLOTS / 32);")
    if plan.slots > SORT_WIDTH:
        out.line("KeepTop(records, spare);")
    _write_weights(out, plan)


def _write_masking(out: CppWriter, plan: RouteTopkPlan, slots: str) -> None:
    routing = plan.routing
    out.line(f"Sort32(recordA, {slots}, index.ReinterpretCast<uint32_t>(), SLOTS / 32);")
    ranked = "recordA"
    if plan.group_pitch > SORT_WIDTH:
        with out.block("for (uint32_t group = 0; group < GROUPS; ++group)"):
            out.line(
                "MergeLists(recordB[group * GROUP_LIST], recordA[group * 2 * GROUP_PITCH], "
                "64, GROUP_RANK, GROUP_PITCH / 32 * GROUP_RANK);"
            )
        ranked = "recordB"
    offsets = "groupOffset.ReinterpretCast<uint32_t>()"
    out.line(f"Gather(groupScore, {ranked}, {offsets}, 0, GROUPS);")
    if routing.group_score is GroupScore.TOP2_SUM:
        out.line(f"Gather(groupSecond, {ranked}, {offsets}, 8, GROUPS);")
        out.line("Add(groupScore, groupScore, groupSecond, static_cast<int32_t>(GROUPS));")
    out.line("Sort32(groupRecord, groupScore, groupIndex.ReinterpretCast<uint32_t>(), 1);")
    out.line("DataCopy(masked, allMasked, SLOTS);")
    with out.block("for (uint32_t j = 0; j < TOPK_GROUPS; ++j)"):
        out.line(
            "const uint32_t start = groupRecord.ReinterpretCast<uint32_t>().GetValue(2 * j + 1) * "
            "GROUP_PITCH;"
        )
        out.line(f"DataCopy(masked[start], {slots}[start], GROUP_PITCH);")


def _write_weights(out: CppWriter, plan: RouteTopkPlan) -> None:
    routing = plan.routing
    out.line("LocalTensor<int32_t> id = idsLocal[i * OUT_PITCH];")
    out.line("LocalTensor<float> weight = weightsLocal[i * OUT_PITCH];")
    out.line(
        "Gather(id, records.ReinterpretCast<int32_t>(), recordOffset.ReinterpretCast<uint32_t>(), "
        "4, TOP_K);"
    )
    out.line("Muls(weightOffset, id, static_cast<int32_t>(4), static_cast<int32_t>(TOP_K));")
    out.line("Gather(weight, score, weightOffset.ReinterpretCast<uint32_t>(), 0, TOP_K);")
    if routing.normalize:
        out.line("ReduceSum(statistic, weight, work, static_cast<int32_t>(TOP_K));")
        out.line("const float total = statistic.GetValue(0) + 1e-20f;")
        out.line("Muls(weight, weight, SCALE / total, static_cast<int32_t>(TOP_K));")
    elif routing.scale != 1.0:
        out.line("Muls(weight, weight, SCALE, static_cast<int32_t>(TOP_K));")
