"""A program that draws drafts: the plan's drafts and tables are those of the operations."""

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
VOCABULARY, HIDDEN, REQUESTS = 300, 32, 6

TEXT = f"""\
graph @main {{
  %0 = input "tokens" : i32[requests]
  %1 = input "options" : f32[requests, 16]
  %2 = input "state" : i32[requests, 16]
  %3 = input "stop_ids" : i32[requests, 8]
  %4 = input "accepted" : i32[requests]
  %5 = input "draft_ids" : i32[requests, 2, 32]
  %6 = input "draft_probs" : f32[requests, 2, 32]
  %7 = param "embedding" : f32[{VOCABULARY}, {HIDDEN}]
  %8 = param "head" : f32[{VOCABULARY}, {HIDDEN}]
  %9 = gather_rows %7, %0 : f32[requests, {HIDDEN}]
  %10 = linear %9, %8 : f32[requests, {VOCABULARY}]
  %11 = sample_drafts %10, %1, %2, %3, %4, %5, %6 : i32[requests], i32[requests, 2, 32], f32[requests, 2, 32]
  %12 = gather_rows %7, %11 : f32[requests, {HIDDEN}]
  %13 = linear %12, %8 : f32[requests, {VOCABULARY}]
  %14 = sample_drafts %13, %1, %2, %3, %4, %11.1, %11.2 {{depth=1}} : i32[requests], i32[requests, 2, 32], f32[requests, 2, 32]
  return %11, %14, %14.1, %14.2
}}
"""  # noqa: E501


def _lower(text: str):
    return lower_program(
        parse_program(text),
        target=TARGET,
        rows=REQUESTS,
        requests=REQUESTS,
        context=128,
        blocks=8,
        name="decode",
        results=("first", "second"),
    )


def test_drafts_follow_each_other_in_the_same_tables():
    random = np.random.default_rng(3)
    checkpoint = {
        name: random.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
        for name in ("embedding", "head")
    }
    options = np.zeros((REQUESTS, 16), np.float32)
    options[1:, Option.TEMPERATURE] = 5.0
    options[2:, Option.VERIFICATION] = [1, 2, 1, 2]
    options[3, Option.TOP_K] = 7
    options[4, Option.TOP_P] = 0.5
    state = np.zeros((REQUESTS, 16), np.int32)
    state[:, State.SEED_LOW] = np.arange(REQUESTS)
    state[:, State.LENGTH] = 9
    inputs = {
        "tokens": random.integers(0, VOCABULARY, REQUESTS).astype(np.int32),
        "options": options,
        "state": state,
        "stop_ids": np.full((REQUESTS, 8), -1, np.int32),
        "accepted": np.arange(REQUESTS, dtype=np.int32) % 3,
        "draft_ids": np.full((REQUESTS, 2, 32), 5, np.int32),
        "draft_probs": np.full((REQUESTS, 2, 32), 5, np.float32),
    }
    plan, weights = _lower(TEXT)
    families = [plan.kernel_by_name[launch.kernel].family for launch in plan.launches]
    assert families.count("sample-drafts") == 2
    runner = PlanRunner(plan, weights, checkpoint, TARGET)
    drafts = runner.step(inputs, (REQUESTS, REQUESTS, 128))
    values = {name: np.asarray(each) for name, each in inputs.items()}
    *expected, ids, shares = interpret(
        parse_program(TEXT), TensorsByKey(ArraySource(checkpoint), values)
    )
    np.testing.assert_array_equal(drafts, expected)
    np.testing.assert_array_equal(runner.array("draft_ids"), ids)
    np.testing.assert_allclose(runner.array("draft_probs"), shares, rtol=1e-4)
    assert len(set(map(tuple, (ids >= 0).sum(axis=2).tolist()))) > 2


@pytest.mark.parametrize(
    ("changed", "to", "reason"),
    [
        ("2, 32]", "2, 16]", "16 tokens of a draft are kept, not 32"),
        (f"[requests, {VOCABULARY}]", "[requests, context]", "the row length context is a named"),
    ],
)
def test_tables_and_vocabularies_that_no_kernel_takes_are_refused(changed, to, reason):
    text = TEXT.replace(changed, to)
    if to.endswith("context]"):
        lines = [line for line in TEXT.splitlines() if not line.startswith(("  %8", "  %9"))]
        lines = [line for line in lines if not line.startswith(("  %7", "  %12", "  %13", "  %14"))]
        text = "\n".join(lines).replace("%10 = linear %9, %8", '%7 = input "logits"')
        text = text.replace("%11", "%8").replace("sample_drafts %10", "sample_drafts %7")
        text = text.replace("%14.", "%8.").replace("return %8, %14", "return %8, %7")
        text = text.replace(changed, to)
    with pytest.raises(GraphError, match=reason) as caught:
        _lower(text)
    assert caught.value.code == "no-kernel"
