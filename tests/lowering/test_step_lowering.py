"""Steps that prepare the next one: what is overwritten, in which order, over many steps."""

import numpy as np
import pytest

from ascendfx.codegen.ascendc.launch_plan import Place
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.weight_spec import evaluate_weight
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.step_state import Option, State
from ascendfx.ir.tensor_source import ArraySource, TensorsByKey
from ascendfx.ir.text.parser import parse_program
from ascendfx.runtime.executor.emulated import EmulatedExecutor
from ascendfx.runtime.executor.reference import ReferenceExecutor
from ascendfx.runtime.executor.step import StepInputs
from tests.lowering.closed_step import (
    BLOCKS,
    CONTEXT,
    HIDDEN,
    IN_PLACE,
    ROWS,
    STEPS,
    TARGET,
    VOCABULARY,
    checkpoint,
    first_step,
    lower,
    step_text,
)
from tests.lowering.plan_runner import PlanRunner


@pytest.mark.parametrize(("requests", "drafts"), [(3, 0), (3, 2), (20, 1), (9, 4)])
def test_steps_follow_each_other_without_a_host(requests, drafts):
    text = step_text(drafts)
    plan, weights = lower(text, requests, drafts)
    runner = PlanRunner(plan, weights, checkpoint(), TARGET)
    step = first_step(requests, drafts)
    caches = {
        "cache.0.0": np.zeros((BLOCKS, 128, HIDDEN)),
        "cache.counts": np.zeros((requests, VOCABULARY), np.int32),
    }
    values = {**step, **caches}
    sizes = requests * (drafts + 1), requests, CONTEXT
    accepted = 0
    for number in range(2 * STEPS):
        runner.step(step if number == 0 else {}, sizes)
        _, _, *changed = interpret(
            parse_program(text), TensorsByKey(ArraySource(checkpoint()), values)
        )
        values.update(zip(IN_PLACE, changed, strict=True))
        for name in IN_PLACE:
            np.testing.assert_array_equal(runner.array(name), values[name], err_msg=name)
        accepted = values["state"][:, State.ACCEPTED].sum()
    assert values["step"][0] == 2 * STEPS
    assert (accepted > 0) == (drafts > 0)
    assert values["state"][:, State.FINISHED].any()
    counts = values["cache.counts"][values["state"][:, State.PLACE]]
    wanted = np.where(
        values["options"][:, Option.FREQUENCY], values["state"][:, State.GENERATED], 0
    )
    np.testing.assert_array_equal(counts.sum(axis=1), 2 * wanted)


def test_what_is_overwritten_is_read_before_wherever_it_stands():
    text = step_text(0)
    late = "  %20 = gather_rows %12, %0 : f32[rows, 32]\n  return %20, %16, %19,"
    late = text.replace("  return %17, %16, %19,", late)
    plan, _ = lower(late, 4, 0)
    families = [plan.kernel_by_name[launch.kernel].family for launch in plan.launches]
    assert families[-1] == "advance-requests"
    assert families.count("gather-rows") == 2


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ("  %20 = gather_rows %12, %19 : f32[rows, 32]\n  return %17, %16, %19,", None),
        ("  %20 = add %19, %0 : i32[rows]\n  return %20, %16, %19,", "used afterwards"),
        ("  return %0, %16, %19,", "are used, too"),
        (
            "  %20 = reshape %0 {shape=[<rows>, 1]} : i32[rows, 1]\n  return %20, %16, %19,",
            "used afterwards",
        ),
    ],
)
def test_old_contents_cannot_be_used_afterwards(change, reason):
    text = step_text(0).replace("  return %17, %16, %19,", change)
    assert change in text
    if reason is None:
        lower(text, 4, 0)
        return
    with pytest.raises(GraphError, match=reason) as caught:
        lower(text, 4, 0)
    assert caught.value.code == "cache-read-after-write"
    assert caught.value.excerpt.startswith("%19 = advance_requests %0, %1, %2")


def test_rows_that_are_not_those_of_the_places_are_refused():
    program = parse_program(step_text(2))
    with pytest.raises(GraphError, match="8 rows are not the rows of 4 places with 2 drafts") as e:
        lower_program(
            program,
            target=TARGET,
            rows=8,
            requests=4,
            context=CONTEXT,
            blocks=BLOCKS,
            name="decode",
        )
    assert (e.value.code, e.value.hint) == ("no-kernel", "lower the program for 12 rows")


def test_a_step_that_keeps_a_change_to_itself_is_refused():
    text = step_text(1)
    last = text.rsplit("return", 1)[1]
    without = text.replace(last, last.replace(", %26.3", "", 1).replace(", %25.3", "", 1))
    assert without != text
    with pytest.raises(
        GraphError, match="it changes token_ids, positions, slots, state, "
    ) as caught:
        lower(without, 4, 1)
    assert caught.value.code == "no-serving-form"


def test_a_plan_names_its_results_and_what_the_host_shares():
    plan, _ = lower(step_text(2), 4, 2)
    assert plan.results == ("next_tokens", "logits")
    assert (plan.capacities.steps, plan.capacities.drafts) == (STEPS, 2)
    controls = [buffer.name for buffer in plan.of_place(Place.CONTROL)]
    assert {*ROWS, *plan.results} < {*controls}
    assert plan.buffer_by_name["emitted"].shape == (STEPS, 4, 4)


@pytest.mark.parametrize("drafts", [0, 2])
def test_a_host_can_drive_single_steps(drafts):
    text = step_text(drafts)
    plan, weights = lower(text, 4, drafts)
    tensors = checkpoint()
    arrays = {spec.name: evaluate_weight(spec, tensors) for spec in weights}
    emulated = EmulatedExecutor({"decode": plan}, arrays, TARGET)
    reference = ReferenceExecutor(
        {"decode": parse_program(text)}, {"decode": plan.capacities}, ArraySource(tensors)
    )
    for count, token in ((3, 5), (1, 7)):
        ids = np.arange(token, token + count, dtype=np.int32)
        step = StepInputs(
            token_ids=ids,
            positions=np.full(count, 9, np.int32),
            slots=np.arange(count, dtype=np.int32) * 128 + 9,
            row_request=np.arange(count, dtype=np.int32),
            block_table=np.arange(2 * count, dtype=np.int32).reshape(count, 2),
            logit_rows=np.arange(count, dtype=np.int32),
            context=10,
        )
        wanted = tensors["embedding"][ids] @ tensors["head"].T
        for executor in (emulated, reference):
            found = executor.run("decode", step)
            assert found.logits.shape == (count, VOCABULARY)
            np.testing.assert_allclose(found.logits, wanted, atol=1e-4)
            np.testing.assert_array_equal(found.next_tokens, wanted.argmax(axis=1))


def test_a_prefill_returns_its_drafts_behind_tokens_and_logits():
    program = parse_program("""graph @main {
      %0 = input "token_ids" : i32[rows]
      %1 = input "row_request" : i32[rows]
      %2 = input "logit_rows" : i32[requests]
      %3 = input "known_tokens" : i32[requests, 1]
      %4 = input "slots" : i32[rows]
      %5 = input "cache.0.0" : f32[blocks, 128, 32]
      %6 = param "embedding" : f32[24, 32]
      %7 = gather_rows %6, %0 : f32[rows, 32]
      %8 = cache_write %5, %4, %7 : f32[blocks, 128, 32]
      %9 = gather_rows %7, %2 : f32[requests, 32]
      %10 = linear %9, %6 : f32[requests, 24]
      %11 = argmax %10 : i32[requests]
      %12 = shift_tokens %0, %2, %1, %11, %3 {depth=0, known=true} : i32[rows]
      %13 = gather_rows %6, %12 : f32[rows, 32]
      %14 = gather_rows %13, %2 : f32[requests, 32]
      %15 = linear %14, %6 : f32[requests, 24]
      %16 = argmax %15 : i32[requests]
      return %11, %10, %16, %8
    }
    """)
    results = ("next_tokens", "logits", "draft_tokens.0")
    plan, weights = lower_program(
        program,
        target=TARGET,
        rows=12,
        requests=2,
        context=CONTEXT,
        blocks=BLOCKS,
        name="prefill",
        drafts=1,
        results=results,
    )
    assert plan.results == results
    runner = PlanRunner(plan, weights, checkpoint(), TARGET)
    random = np.random.default_rng(0)
    step = {
        "token_ids": random.integers(0, VOCABULARY, 11),
        "row_request": np.repeat([0, 1], [4, 7]),
        "logit_rows": np.array([3, 10]),
        "known_tokens": np.array([[-1], [5]]),
        "slots": np.arange(11),
        "cache.0.0": np.zeros((BLOCKS, 128, HIDDEN)),
    }
    found = runner.step({k: v for k, v in step.items() if k != "cache.0.0"}, (11, 2, CONTEXT))
    tokens, _, drafts, _ = interpret(program, TensorsByKey(ArraySource(checkpoint()), step))
    np.testing.assert_array_equal(found[0], tokens)
    np.testing.assert_array_equal(found[2], drafts)
