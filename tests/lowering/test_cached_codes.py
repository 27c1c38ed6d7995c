"""Programs whose latent cache holds codes, run in the emulator; what they read; what they cost."""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest

from ascendfx.codegen.ascendc.cost_model import StepSizes, cost_of_plan
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.insertion.cache_form import LATENTS
from ascendfx.quant_passes.insertion.quantize_cache import QuantizeCache
from tests.lowering.serving_case import decode_step, prefill_step
from tests.lowering.serving_programs import V3, Shape, serving_program
from tests.lowering.step_of_codes import BLOCKS, CONTEXT, TARGET, assert_same, run_both


def with_codes(program):
    return QuantizeCache(LATENTS).run(program).program


def check_step(shape, name, step, **sizes):
    found, wanted, (logits, exact) = run_both(shape, name, step, rewrite=with_codes, **sizes)
    assert_same(found["codes"], wanted["codes"])
    codes = [each for each in found["caches"] if each.dtype == np.int8]
    assert len(codes) == shape.dense_layers + shape.moe_layers
    for got, exact_cache in zip(found["caches"], wanted["caches"], strict=True):
        if got.dtype == np.int8:
            np.testing.assert_array_equal(got, exact_cache)
        else:
            np.testing.assert_allclose(got, exact_cache, rtol=1e-5, atol=1e-5)
    np.testing.assert_allclose(logits, exact, atol=1e-4)


def test_a_decode_step_stores_the_codes_of_the_interpreter_and_attends_to_them():
    shape = replace(Shape(), moe_layers=0)
    step = decode_step(np.random.default_rng(3), 3, CONTEXT, BLOCKS, shape.vocabulary)
    check_step(shape, "decode", step, rows=4, requests=4)


@pytest.mark.nightly
def test_a_prefill_chunk_stores_them_and_expands_them():
    shape = replace(Shape(), expanded=True)
    step = prefill_step(np.random.default_rng(1), 21, 100, BLOCKS, shape.vocabulary)
    check_step(shape, "prefill", step, rows=64, requests=1)


FEW = replace(V3, dense_layers=1, moe_layers=1)


@pytest.fixture(scope="module")
def v3_plans():
    """Return plans of V3 with a cache of numbers and of codes."""
    program = serving_program(FEW)
    return [
        lower_program(
            each, target=TARGET, rows=128, requests=128, context=4_096, blocks=4_096, name="decode"
        )[0]
        for each in (program, with_codes(program))
    ]


def test_attention_of_v3_reads_the_codes_themselves_and_one_launch_more_stores_scales(v3_plans):
    plain, coded = (Counter(launch.kernel for launch in plan.launches) for plan in v3_plans)
    assert coded.total() == plain.total() + 2
    assert coded["decode_write_cache_n1_f32"] == 2
    assert coded["decode_write_cache_n512_i8"] == 2
    assert sum("attention_codes" in name for name in coded.elements()) == 2
    assert not any("gather_c" in name for name in coded)


def test_a_token_of_v3_takes_644_bytes_instead_of_1152(v3_plans):
    for plan, wanted in zip(v3_plans, (1_152, 512 + 4 + 128), strict=True):
        caches = [each for each in plan.buffers if each.name.startswith("cache.")]
        layers = FEW.dense_layers + FEW.moe_layers
        assert sum(each.bytes for each in caches) == layers * wanted * 4_096 * 128


def test_attention_of_v3_moves_fewer_bytes(v3_plans):
    moved = []
    for plan in v3_plans:
        kernels = cost_of_plan(plan, TARGET, StepSizes(32, 32, 4_096)).kernels
        (attention,) = (each.each for each in kernels if "latent_decode" in each.work.kernel)
        moved.append(attention.bytes)
    assert 644 / 1_152 < moved[1] / moved[0] < 0.7  # queries and results are as many


def test_a_model_in_f32_decodes_to_f32():
    program = with_codes(serving_program(Shape()))
    kinds = {node.types[0].dtype for graph in program.graphs for node in graph.nodes}
    assert DType.BF16 not in kinds
