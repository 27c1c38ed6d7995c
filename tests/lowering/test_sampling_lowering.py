"""A program that samples: the plan's tokens are those of the operations."""

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.step_state import Option, State, Verification
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
  %3 = input "options" : f32[requests, 16]
  %4 = input "state" : i32[requests, 16]
  %5 = input "stop_ids" : i32[requests, 8]
  %6 = param "embedding" : f32[{VOCABULARY}, {HIDDEN}]
  %7 = param "head" : f32[{VOCABULARY}, {HIDDEN}]
  %8 = gather_rows %6, %0 : f32[rows, {HIDDEN}]
  %9 = linear %8, %7 : f32[rows, {VOCABULARY}]
  %10 = input "counts" : i32[places, {VOCABULARY}]
  %11 = sample_tokens %9, %3, %4, %5, %1, %2, %10 : i32[rows]
  return %11, %9
}}
"""

COUPLED = TEXT.replace(
    """\
  %11 = sample_tokens %9, %3, %4, %5, %1, %2, %10 : i32[rows]
  return %11, %9
""",
    """\
  %11 = input "draft_ids" : i32[requests, 1, 32]
  %12 = input "draft_probs" : f32[requests, 1, 32]
  %13 = sample_tokens %9, %3, %4, %5, %1, %2, %10, %0, %11, %12 {drafts=1} : i32[rows]
  return %13, %9
""",
)


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


@pytest.mark.parametrize("text", [TEXT, COUPLED], ids=["alone", "coupled"])
def test_rows_are_sampled_as_their_requests_want(text: str):
    random = np.random.default_rng(3)
    checkpoint = {
        name: random.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
        for name in ("embedding", "head")
    }
    options = np.zeros((REQUESTS, 16), np.float32)
    options[1:, Option.TEMPERATURE] = 2.0
    options[2, Option.TOP_K] = 7
    options[3, Option.TOP_P] = 0.9
    options[4, Option.MIN_P] = 0.01
    options[:, Option.VERIFICATION] = np.arange(REQUESTS) % len(Verification)
    options[3:, Option.PRESENCE] = 0.5
    state = np.zeros((REQUESTS, 16), np.int32)
    state[:, State.SEED_LOW] = np.arange(REQUESTS)
    state[:, State.PLACE] = np.arange(REQUESTS)[::-1]
    state[:, State.DRAFTED] = DRAFTS
    counts = random.integers(0, 4, (REQUESTS, VOCABULARY)).astype(np.int32)
    draft_probs = np.zeros((REQUESTS, DRAFTS, 32), np.float32)
    draft_probs[..., :4] = 0.25
    inputs: dict[str, NDArray[np.generic]] = {
        "token_ids": random.integers(0, VOCABULARY, ROWS).astype(np.int32),
        "positions": np.arange(ROWS, dtype=np.int32),
        "row_request": np.repeat(np.arange(REQUESTS), DRAFTS + 1).astype(np.int32),
        "options": options,
        "state": state,
        "stop_ids": np.full((REQUESTS, 8), -1, np.int32),
        "counts": counts,
    }
    if text is COUPLED:
        draft_ids = random.integers(0, VOCABULARY, (REQUESTS, DRAFTS, 32), np.int32)
        draft_ids[..., 0] = inputs["token_ids"].reshape(REQUESTS, -1)[:, 1:]
        inputs |= {"draft_ids": draft_ids, "draft_probs": draft_probs}
    plan, weights = _lower(text)
    families = [plan.kernel_by_name[launch.kernel].family for launch in plan.launches]
    assert families[-1] == "sample-tokens"
    runner = PlanRunner(plan, weights, checkpoint, TARGET)
    tokens, _ = runner.step(inputs, (ROWS, REQUESTS, 128))
    values = {name: np.asarray(each) for name, each in inputs.items()}
    expected, _ = interpret(parse_program(text), TensorsByKey(ArraySource(checkpoint), values))
    np.testing.assert_array_equal(tokens, expected)


def test_a_vocabulary_without_a_number_is_refused():
    text = TEXT.replace('input "token_ids" : i32[rows]', 'input "logits" : f32[rows, context]')
    text = text.replace(f"i32[places, {VOCABULARY}]", "i32[places, context]")
    text = "\n".join(line for line in text.splitlines() if " = param" not in line)
    text = text.replace("%10 = input", "%6 = input").replace(
        "%11 = sample_tokens %9", "%7 = sample_tokens %0"
    )
    text = "\n".join(line for line in text.splitlines() if line[:4] not in ("  %8", "  %9"))
    text = text.replace("return %11, %9", "return %7, %0").replace(", %10 :", ", %6 :")
    with pytest.raises(GraphError, match="the row length context is a named size") as caught:
        _lower(text)
    assert caught.value.code == "no-kernel"
