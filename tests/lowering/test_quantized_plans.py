"""Programs with projections of codes, run in the emulator: every code and every sum is right."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ascendfx.codegen.ascendc.cost_model import StepSizes, cost_of_plan
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.ir import ops
from tests.lowering.quantized_program import quantized
from tests.lowering.serving_case import decode_step, prefill_step
from tests.lowering.serving_programs import V3, Shape, serving_program
from tests.lowering.step_of_codes import BLOCKS, CONTEXT, TARGET, assert_same, run_both

SHAPES = {
    "small": Shape(),
    "wide": replace(Shape(), heads=3, moe_layers=2, experts=16, groups=4, top_k=4, q_rank=40),
}


@pytest.mark.parametrize("name", ["small", pytest.param("wide", marks=pytest.mark.nightly)])
def test_a_decode_step_makes_the_codes_and_sums_of_the_interpreter(name):
    shape = SHAPES[name]
    step = decode_step(np.random.default_rng(3), 3, CONTEXT, BLOCKS, shape.vocabulary)
    found, wanted, (logits, exact) = run_both(shape, "decode", step, rows=4, requests=4)
    assert_same(found["codes"], wanted["codes"])
    assert_same(found["sums"], wanted["sums"])
    np.testing.assert_allclose(logits, exact, atol=1e-4)


@pytest.mark.parametrize(
    ("name", "four_bits"),
    [
        ("small", (ops.GroupedLinear,)),
        pytest.param("small", (ops.Linear, ops.GroupedLinear), marks=pytest.mark.nightly),
        pytest.param("wide", (ops.GroupedLinear,), marks=pytest.mark.nightly),
    ],
)
def test_a_decode_step_by_four_bits_makes_the_digits_and_sums_of_the_interpreter(name, four_bits):
    shape = SHAPES[name]
    step = decode_step(np.random.default_rng(3), 3, CONTEXT, BLOCKS, shape.vocabulary)
    found, wanted, (logits, exact) = run_both(
        shape, "decode", step, rows=4, requests=4, four_bits=four_bits
    )
    assert any(each.dtype == np.uint8 for each in found["codes"])
    assert_same(found["codes"], wanted["codes"])
    assert_same(found["sums"], wanted["sums"])
    np.testing.assert_allclose(logits, exact, atol=1e-4)


@pytest.mark.nightly
def test_a_prefill_chunk_makes_the_codes_and_sums_of_the_interpreter():
    shape = replace(Shape(), expanded=True)
    step = prefill_step(np.random.default_rng(1), 21, 100, BLOCKS, shape.vocabulary)
    found, wanted, (logits, exact) = run_both(shape, "prefill", step, rows=64, requests=1)
    assert_same(found["sums"], wanted["sums"])
    np.testing.assert_allclose(logits, exact, atol=1e-4)


FEW = replace(V3, dense_layers=1, moe_layers=3)
"""Layers of full size, few of them, as lowering takes its time for each."""


@pytest.fixture(scope="module")
def v3_plans():
    """Return plans of V3, in bf16, with codes of eight bits, with experts of four."""
    program = serving_program(FEW)
    return [
        lower_program(
            each, target=TARGET, rows=128, requests=128, context=4_096, blocks=4_096, name="decode"
        )[0]
        for each in (program, quantized(program), quantized(program, (ops.GroupedLinear,)))
    ]


def launches_of_a_layer(plan):
    """Return the kernels of an MoE layer."""
    counts = Counter(launch.kernel for launch in plan.launches)
    return Counter({name: count // FEW.moe_layers for name, count in counts.items()})


def test_a_layer_of_v3_has_few_launches_more(v3_plans):
    """What scales add: gathered codes, scales and channels of experts, and what does not fit."""
    wide, narrow, four = map(launches_of_a_layer, v3_plans)
    assert (wide.total(), narrow.total(), four.total()) == (25, 32, 32)
    assert (
        sorted(name.endswith("_i4x2") for name in four.elements() if "matmul" in name)[-2:]
        == [True] * 2
    )
    products = [name for name in narrow.elements() if "matmul" in name and "_b128_" not in name]
    assert sorted(name.endswith("_i8") for name in products) == [False] + 8 * [True]  # the router


@pytest.mark.parametrize(
    ("form", "rows", "faster"),
    [(1, 1, 1.5), (1, 32, 1.85), (1, 128, 1.8), (2, 1, 1.8), (2, 32, 3.3), (2, 128, 3.2)],
)
def test_a_layer_of_v3_is_modelled_to_be_faster_as_it_reads_fewer_bytes(
    v3_plans, form, rows, faster
):
    step = StepSizes(rows, rows, 4_096)
    seconds, moved = [], []
    for plan in (v3_plans[0], v3_plans[form]):
        kernels = cost_of_plan(plan, TARGET, step).kernels
        layer = [(each.launches // FEW.moe_layers, each.each) for each in kernels]
        seconds.append(sum(launches * each.seconds for launches, each in layer))
        moved.append(sum(launches * each.bytes for launches, each in layer))
    assert faster < seconds[0] / seconds[1] < 2 * form
    assert faster < moved[0] / moved[1] < 2 * form
