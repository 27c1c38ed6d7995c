"""The roofline gives the published and measured figures it was made from, and adds up."""

import math
from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.cost_model import (
    StepSizes,
    cost_of_plan,
    launch_cost,
)
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.codegen.ascendc.work import Work, expected_distinct
from ascendfx.codegen.ascendc.work_of_op import work_of_op
from ascendfx.ir import ops
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.runtime.dumps.plan_cost_record import plan_cost_record
from tests.lowering.serving_programs import Shape, serving_program

TARGET = find_target("ascend910b1")
STEP = StepSizes(32, 32, 4096)
ROWS, REQUESTS, CONTEXT = map(named_size, ("rows", "requests", "context"))


def bf16(*shape) -> TensorType:
    return TensorType(DType.BF16, shape)


def microseconds(work: Work, step: StepSizes = STEP) -> float:
    return launch_cost(work, TARGET, step).seconds * 1e6


def test_a_large_product_takes_what_the_vendors_sample_takes():
    # asc-devkit, matmul_high_performance, 8192 cubed, f16: task 4012 us.
    side = 8192
    work = work_of_op(
        ops.Linear(), [bf16(side, side), bf16(side, side)], [bf16(side, side)], chosen=0
    )
    cost = launch_cost(work, TARGET, STEP)
    assert cost.bound == "cube"
    assert microseconds(work) == pytest.approx(4012, rel=0.01)


def test_a_copy_takes_what_the_vendors_sample_takes():
    # asc-devkit, data_copy, 12288 squared f16 to UB: 202.7 us of copying, 215.8 us of task; the
    # launch of a captured graph is shorter than that of a task.
    work = Work(bytes=12288 * 12288 * 2)
    assert launch_cost(work, TARGET, STEP).bound == "hbm"
    assert 202.7 * 0.99 < microseconds(work) < 215.8


def test_small_launches_are_bound_by_the_launch():
    assert launch_cost(Work(bytes=64), TARGET, STEP).bound == "launch"
    assert microseconds(Work(bytes=64)) == pytest.approx(2.3, abs=0.1)
    assert microseconds(Work(products=64)) == pytest.approx(5.3, abs=0.1)


def test_f32_products_run_at_a_quarter_of_the_rate():
    narrow, wide = Work(products=10**12), Work(products=10**12, format=DType.F32)
    overhead = microseconds(Work(products=1))
    ratio = (microseconds(wide) - overhead) / (microseconds(narrow) - overhead)
    assert ratio == pytest.approx(4)


def test_products_of_codes_run_at_twice_the_rate_and_read_half_the_bytes():
    codes = TensorType(DType.I8, (4096, 8192))
    work = work_of_op(ops.Linear(), [codes, codes], [TensorType(DType.I32, (4096, 4096))], chosen=0)
    wide = work_of_op(
        ops.Linear(), [bf16(4096, 8192), bf16(4096, 8192)], [bf16(4096, 4096)], chosen=0
    )
    overhead = microseconds(Work(products=1))
    ratio = (microseconds(wide) - overhead) / (microseconds(work) - overhead)
    assert ratio == pytest.approx(2)
    assert work.numbers(STEP).bytes == 2 * 4096 * 8192 + 4 * 4096 * 4096
    assert wide.numbers(STEP).bytes == 4 * 4096 * 8192 + 2 * 4096 * 4096


@pytest.mark.parametrize(("experts", "chosen", "rows"), [(16, 4, 3), (256, 8, 32), (8, 1, 20)])
def test_expected_experts_are_the_mean_of_a_draw(experts, chosen, rows):
    random = np.random.default_rng(1)
    draws = 4000
    seen = [
        len({e for _ in range(rows) for e in random.choice(experts, chosen, replace=False)})
        for _ in range(draws)
    ]
    # The mean of n draws deviates by its standard error; 5 of them happen once in a million.
    error = 5 * np.std(seen) / math.sqrt(draws)
    assert expected_distinct(experts, chosen, rows) == pytest.approx(np.mean(seen), abs=error)


@given(requests=st.integers(1, 6), each=st.integers(1, 5), more=st.integers(0, 9))
def test_visible_pairs_are_counted(requests, each, more):
    context = each + more
    step = StepSizes(requests * each, requests, context)
    pairs = sum(more + i + 1 for _ in range(requests) for i in range(each))
    assert step.visible == pairs


def test_the_work_of_latent_and_of_expanded_attention_are_the_formulas():
    h, c, e, n, d = 128, 512, 64, 128, 128
    ids = TensorType(DType.I32, (ROWS,))
    latent = bf16(REQUESTS, CONTEXT, 1, c)
    absorbed = work_of_op(
        ops.RaggedAttention(2, 1.0),
        [
            bf16(ROWS, h, c),
            bf16(ROWS, h, e),
            latent,
            bf16(REQUESTS, CONTEXT, 1, e),
            latent,
            ids,
            ids,
        ],
        [bf16(ROWS, h, c)],
        chosen=0,
    ).numbers(STEP)
    assert absorbed.products == STEP.visible * h * (c + e + c)
    queries = 2 * 32 * h * (c + e + c)
    assert absorbed.bytes == 32 * 4096 * 2 * (c + e) + queries + 2 * 4 * 32
    assert absorbed.rereads == 0  # one row per request
    expanded = work_of_op(
        ops.RaggedAttention(2, 1.0),
        [
            *(bf16(ROWS, h, n), bf16(ROWS, h, e)),
            *(bf16(REQUESTS, CONTEXT, h, n), bf16(REQUESTS, CONTEXT, 1, e)),
            *(bf16(REQUESTS, CONTEXT, h, d), ids, ids),
        ],
        [bf16(ROWS, h, d)],
        chosen=0,
    ).numbers(replace(STEP, requests=1))
    assert expanded.products == replace(STEP, requests=1).visible * h * (n + e + d)
    keys = 4096 * 2 * (h * n + e + h * d)
    assert expanded.bytes == keys + 2 * 32 * h * (n + e + d) + 2 * 4 * 32


def plan_of(rows=4):
    sizes = {"rows": rows, "requests": rows, "context": 256, "blocks": 2 * rows}
    return lower_program(serving_program(Shape()), target=TARGET, name="decode", **sizes)[0]


def test_a_plan_costs_the_sum_of_its_kernels():
    plan = plan_of()
    cost = cost_of_plan(plan, TARGET)
    assert cost.launches == len(plan.launches)
    assert [each.work.kernel for each in cost.kernels] == [kernel.name for kernel in plan.kernels]
    record = plan_cost_record(cost)
    for total in ("microseconds", "bytes", "operations"):
        assert record["total"][total] == pytest.approx(sum(k[total] for k in record["kernels"]))
    assert record["step"] == {"rows": 4, "requests": 4, "context": 256}
    assert {kernel["graph"] for kernel in record["kernels"]} == {each.graph for each in plan.works}


def test_a_grouped_product_reads_the_experts_that_rows_choose():
    e, n, k, chosen = 256, 64, 32, 8
    pairs = chosen * ROWS
    work = work_of_op(
        ops.GroupedLinear(),
        [bf16(pairs, k), bf16(e, n, k), TensorType(DType.I32, (e,))],
        [bf16(pairs, n)],
        chosen=chosen,
    )
    one = work.numbers(StepSizes(1, 1, 128))
    assert one.bytes == pytest.approx(2 * chosen * (n * k + n + k) + 4 * e)
    assert one.products == chosen * n * k
    many = work.numbers(StepSizes(100_000, 1, 128))
    assert many.bytes == pytest.approx(2 * e * n * k + 2 * chosen * 100_000 * (n + k) + 4 * e)


@given(rows=st.integers(1, 64), context=st.integers(64, 4096))
def test_a_larger_step_never_costs_less(rows, context):
    cost = cost_of_plan(PLAN, TARGET, StepSizes(rows, rows, context))
    more = cost_of_plan(PLAN, TARGET, StepSizes(rows + 1, rows + 1, context + 64))
    assert more.seconds >= cost.seconds
    assert more.bytes > cost.bytes
    assert more.operations > cost.operations


PLAN = plan_of()


def test_a_plan_without_records_is_refused():
    with pytest.raises(GraphError, match="plan `decode` does not say what kernel"):
        cost_of_plan(replace(PLAN, works=()), TARGET)
