"""What the cost model says of products of four-bit codes, alone and to the search."""

import pytest

from ascendfx.codegen.ascendc.cost_model import StepSizes, busy_seconds
from ascendfx.codegen.ascendc.modelled_op_cost import ModelledOpCost
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.codegen.ascendc.work_of_op import work_of_op
from ascendfx.ir.location import UNKNOWN
from ascendfx.ir.ops import GroupedLinear, Linear
from ascendfx.ir.text.literal import read_types
from ascendfx.passes.search.op_cost import Cost, OpSite

TARGET = find_target("ascend910b")
STEP = StepSizes(64, 64, 256)
EIGHT = "i8[rows, 4096], i8[512, 4096]"
FOUR = "i4x2[rows, 2, 2048], i4x2[512, 2048]"


def test_two_products_of_digits_take_the_time_of_one_of_codes() -> None:
    """And half the bytes of the weight, which is read once."""
    parts = []
    for op, text in ((Linear(), EIGHT), (Linear(pairs=True), FOUR)):
        types = read_types(text, UNKNOWN)
        work = work_of_op(op, types, op.infer(*types), chosen=0)
        parts.append((busy_seconds(work, TARGET, STEP)["cube"], work.numbers(STEP)))
    (eight, bytes_eight), (four, bytes_four) = parts
    assert four == pytest.approx(eight)
    assert bytes_four.products == 2 * bytes_eight.products
    weight, sums = 512 * 4096, 64 * 512 * 4
    assert bytes_four.bytes == bytes_eight.bytes - weight / 2 + sums


@pytest.mark.parametrize(
    ("op", "text"),
    [
        (Linear(pairs=True), FOUR),
        (Linear(pairs=True), "i4x2[rows, 2048], i4x2[512, 2048]"),
        (GroupedLinear(pairs=True), "i4x2[8*rows, 2, 64], i4x2[16, 512, 64], i32[16]"),
    ],
)
def test_the_search_is_told_a_cost(op: Linear | GroupedLinear, text: str) -> None:
    types = read_types(text, UNKNOWN)
    site = OpSite(op, types, op.infer(*types), tuple(range(len(types))))
    assert isinstance(ModelledOpCost(TARGET, STEP, 64).of_op(site), Cost)
