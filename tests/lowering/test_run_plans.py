"""Plans of the hand-written serving programs, run in the emulator against the float64 truth."""

from dataclasses import replace

import numpy as np
import pytest

from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.tensor_type import DType
from tests.lowering.plan_runner import PlanRunner
from tests.lowering.rounding_noise import noise_bounds
from tests.lowering.serving_case import checkpoint, decode_step, prefill_step, random_caches
from tests.lowering.serving_programs import Shape, serving_program

TARGET = find_target("ascend910b")
CONTEXT, BLOCKS = 256, 8


class Case:
    """One shape: program, plan, memory and random caches."""

    def __init__(self, shape, name, *, rows, requests, blocks=BLOCKS):
        self.shape = shape
        self.program = serving_program(shape, name)
        plan, weights = lower_program(
            self.program,
            target=TARGET,
            rows=rows,
            requests=requests,
            context=CONTEXT,
            blocks=blocks,
            name=name,
        )
        self.tensors = checkpoint(self.program)
        self.runner = PlanRunner(plan, weights, self.tensors, TARGET)
        self.caches = random_caches(np.random.default_rng(7), self.program, blocks)
        for key, value in self.caches.items():
            self.runner.array(key)[:] = value

    def check(self, inputs, sizes):
        """Run one step and compare tokens, logits and caches with the truth."""
        given = {**inputs, **self.caches}
        (tokens, logits, *caches), bounds = noise_bounds(self.program, self.tensors, given, sizes)
        pairs = (sizes[0] * self.shape.top_k, sizes[1] * self.shape.top_k)
        got_tokens, got_logits = self.runner.step(inputs, (*sizes, *pairs))
        got_tokens, got_logits = got_tokens[: sizes[1]], got_logits[: sizes[1]]
        assert deviation(got_logits, logits) <= bounds[1]
        np.testing.assert_array_equal(got_tokens, np.argmax(got_logits, axis=-1))
        lost = logits[np.arange(sizes[1]), tokens] - logits[np.arange(sizes[1]), got_tokens]
        assert np.max(lost) <= 2 * bounds[1]
        for (key, value), exact, bound in zip(self.caches.items(), caches, bounds[2:], strict=True):
            assert deviation(self.runner.array(key), exact) <= bound
            value[:] = self.runner.array(key)


def deviation(got, exact):
    return np.max(np.abs(got.astype(np.float64) - exact))


SHAPES = {
    "f32": Shape(),
    # Every expert is chosen: roundings to bf16 would else change the choice here and there.
    "bf16": Shape(dtype=DType.BF16, experts=4, groups=1, top_k=4),
}


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES.keys())
def decode(request):
    return Case(request.param, "decode", rows=4, requests=4)


@pytest.fixture(scope="module", params=SHAPES.values(), ids=SHAPES.keys())
def prefill(request):
    return Case(replace(request.param, expanded=True), "prefill", rows=64, requests=1)


@pytest.mark.parametrize("requests", [1, 3, 4])
def test_a_decode_step_gives_the_true_tokens_logits_and_caches(decode, requests):
    random = np.random.default_rng(requests)
    vocabulary = decode.shape.vocabulary
    for _ in range(2):
        decode.check(*decode_step(random, requests, CONTEXT, BLOCKS, vocabulary))


@pytest.mark.parametrize(("rows", "start"), [(37, 100), (64, 0), (1, 255)])
def test_a_prefill_chunk_gives_the_true_token_logits_and_caches(prefill, rows, start):
    random = np.random.default_rng(rows)
    prefill.check(*prefill_step(random, rows, start, BLOCKS, prefill.shape.vocabulary))


def test_more_experts_heads_and_layers_than_one_tile_hold():
    shape = replace(Shape(), heads=20, moe_layers=2, experts=16, groups=4, top_k=4, q_rank=40)
    case = Case(shape, "decode", rows=5, requests=5, blocks=16)
    random = np.random.default_rng(2)
    case.check(*decode_step(random, 4, CONTEXT, 16, shape.vocabulary))


@pytest.mark.parametrize("heads", [2, 128])
def test_a_step_of_a_single_row_runs(heads):
    """With 128 heads a row of attention results is longer than a copy to L1 can step over."""
    shape = Shape(heads=heads, kv_rank=64 if heads == 2 else 512)
    case = Case(shape, "decode", rows=1, requests=1)
    random = np.random.default_rng(5)
    case.check(*decode_step(random, 1, CONTEXT, BLOCKS, case.shape.vocabulary))
