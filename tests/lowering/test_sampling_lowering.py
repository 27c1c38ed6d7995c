"""A program that samples: the plan's tokens are those of the operations."""

import numpy as np
import pytest

from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.step_state import Option, State
from ascendfx.ir.tensor_source import ArraySource, TensorsByKey
from ascendfx.ir.text.parser import parse_program
from tests.lowering.plan_runner import PlanRunner

TARGET = find_target("ascend910b")
VOCABULARY, HIDDEN = 300, 32
REQUESTS, DRAFTS = 5, 1
ROWS = REQUESTS * (DRAFTS + 1)

TEXT = f"""\
graph @main {{
  %0 = input "token_ids" : i32[rows]
  %1 = input "positions" : i32[rows]
  %2 = input "row_request" : i32[rows]
  %3 = input "options" : f32[requests, 8]
  %4 = input "state" : i32[requests, 16]
  %5 = input "stop_ids" : i32[requests, 8]
  %6 = param "embedding" : f32[{VOCABULARY}, {HIDDEN}]
  %7 = param "head" : f32[{VOCABULARY}, {HIDDEN}]
  %8 = gather_rows %6, %0 : f32[rows, {HIDDEN}]
  %9 = linear %8, %7 : f32[rows, {VOCABULARY}]
  %10 = sample_tokens %9, %3, %4, %5, %1, %2 : i32[rows]
  return %10, %9
}}
"""


def _lower(text: str):
    return lower_program(
        parse_program(text),
        target=TARGET,
        rows=ROWS,
        requests=REQUESTS,
        context=128,
        blocks=8,
        name="decode",
    )


def test_rows_are_sampled_as_their_requests_want():
    random = np.random.default_rng(3)
    checkpoint = {
        name: random.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
        for name in ("embedding", "head")
    }
    options = np.zeros((REQUESTS, 8), np.float32)
    options[1:, Option.TEMPERATURE] = 2.0
    options[2, Option.TOP_K] = 7
    options[3, Option.TOP_P] = 0.9
    options[4, Option.MIN_P] = 0.01
    state = np.zeros((REQUESTS, 16), np.int32)
    state[:, State.SEED_LOW] = np.arange(REQUESTS)
    inputs = {
        "token_ids": random.integers(0, VOCABULARY, ROWS).astype(np.int32),
        "positions": np.arange(ROWS, dtype=np.int32),
        "row_request": np.repeat(np.arange(REQUESTS), DRAFTS + 1).astype(np.int32),
        "options": options,
        "state": state,
        "stop_ids": np.full((REQUESTS, 8), -1, np.int32),
    }
    plan, weights = _lower(TEXT)
    families = [plan.kernel_by_name[launch.kernel].family for launch in plan.launches]
    assert families[-1] == "sample-tokens"
    runner = PlanRunner(plan, weights, checkpoint, TARGET)
    tokens, _ = runner.step(inputs, (ROWS, REQUESTS, 128))
    values = {name: np.asarray(each) for name, each in inputs.items()}
    expected, _ = interpret(parse_program(TEXT), TensorsByKey(ArraySource(checkpoint), values))
    np.testing.assert_array_equal(tokens, expected)


def test_a_vocabulary_without_a_number_is_refused():
    text = TEXT.replace('input "token_ids" : i32[rows]', 'input "logits" : f32[rows, context]')
    text = "\n".join(line for line in text.splitlines() if " = param" not in line)
    text = text.replace("%10 = sample_tokens %9", "%6 = sample_tokens %0")
    text = "\n".join(line for line in text.splitlines() if line[:4] not in ("  %8", "  %9"))
    text = text.replace("return %10, %9", "return %6, %0")
    with pytest.raises(GraphError, match="the row length context is a named size") as caught:
        _lower(text)
    assert caught.value.code == "no-kernel"
