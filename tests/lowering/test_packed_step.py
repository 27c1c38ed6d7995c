"""Steps without rows for placeholders: the same tokens, and less work where less is drafted."""

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import ROW_START, LaunchPlan
from ascendfx.codegen.ascendc.lowering.lower_program import RESULTS, lower_program
from ascendfx.codegen.ascendc.weight_spec import WeightSpec, evaluate_weight
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.ops import PackRows
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.program import Program
from ascendfx.ir.step_state import Finish, Size, State
from ascendfx.ir.tensor_source import ArraySource, TensorsByKey
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.drop_placeholders import DropPlaceholders
from ascendfx.runtime.executor.emulated import EmulatedExecutor
from ascendfx.runtime.executor.reference import ReferenceExecutor
from ascendfx.runtime.executor.step import StepInputs
from tests.lowering.closed_step import (
    BLOCKS,
    CONTEXT,
    HIDDEN,
    IN_PLACE,
    STEPS,
    TARGET,
    VOCABULARY,
    checkpoint,
    first_step,
    lower,
    step_text,
)
from tests.lowering.plan_runner import PlanRunner

CACHES = ("cache.0.0", "cache.counts")


def packed(drafts: int) -> Program:
    program = DropPlaceholders().run(parse_program(step_text(drafts))).program
    verify_program(program)
    return program


def packed_plan(requests: int, drafts: int) -> tuple[LaunchPlan, tuple[WeightSpec, ...]]:
    return lower_program(
        packed(drafts),
        target=TARGET,
        rows=requests * (drafts + 1),
        requests=requests,
        context=CONTEXT,
        blocks=BLOCKS,
        name="decode",
        steps=STEPS,
        drafts=drafts,
        results=(*RESULTS, ROW_START),
    )


def empty_caches(requests: int) -> dict[str, NDArray[Any]]:
    return {
        "cache.0.0": np.zeros((BLOCKS, 128, HIDDEN)),
        "cache.counts": np.zeros((requests, VOCABULARY), np.int32),
    }


@pytest.mark.parametrize(("requests", "drafts"), [(1, 3), (3, 2), (20, 1), (9, 4)])
def test_packed_steps_leave_behind_what_steps_with_placeholders_do(
    requests: int, drafts: int
) -> None:
    """Kernels, interpreter and the step with placeholders agree, whatever each place drafts."""
    plan, weights = packed_plan(requests, drafts)
    runner = PlanRunner(plan, weights, checkpoint(), TARGET)
    step = first_step(requests, drafts)
    plain = {**step, **empty_caches(requests)}
    values = {**plain, "sizes": np.zeros(8)}
    names = (*IN_PLACE[:-2], "sizes", *CACHES)
    sizes = requests * (drafts + 1), requests, CONTEXT, 0, 0
    counts = set()
    for number in range(2 * STEPS):
        wanted = rows_of_places(plain["state"], drafts)
        runner.step(step if number == 0 else {}, sizes)
        assert runner.array("sizes")[Size.PACKED_ROWS] == wanted.sum()
        starts = np.cumsum(wanted) - wanted
        np.testing.assert_array_equal(runner.array(ROW_START), starts)
        _, _, *changed = interpret(
            parse_program(step_text(drafts)), TensorsByKey(ArraySource(checkpoint()), plain)
        )
        plain.update(zip(IN_PLACE, changed, strict=True))
        _, _, found, *changed = interpret(
            packed(drafts),
            TensorsByKey(ArraySource(checkpoint()), values),
            sizes={"packed_rows": requests * (drafts + 1)},
        )
        values.update(zip(names, changed, strict=True))
        np.testing.assert_array_equal(found, starts)
        for name in IN_PLACE[:-2]:
            np.testing.assert_array_equal(runner.array(name), plain[name], err_msg=name)
            np.testing.assert_array_equal(values[name], plain[name], err_msg=name)
        counts.add(int(wanted.sum()))
    assert plain["state"][:, State.ACCEPTED].sum() > 0
    assert len(counts) > 1


def work_of(drafted: list[int], drafts: int) -> tuple[int, int]:
    """Return instructions and bytes of what the main model computes of a step."""
    requests = len(drafted)
    plan, weights = packed_plan(requests, drafts)
    runner = PlanRunner(plan, weights, checkpoint(), TARGET)
    step = first_step(requests, drafts)
    step["state"][:, State.FINISHED] = Finish.RUNS
    step["state"][:, State.DRAFTED] = drafted
    runner.step(step, (requests * (drafts + 1), requests, CONTEXT, 0, 0))
    families = [plan.kernel_by_name[each.kernel].family for each, _ in runner.launched]
    found = runner.launched[families.index("pack-rows") + 1 : families.index("verify-drafts")]
    assert len(found) == 4
    return (
        sum(sum(result.instructions.values()) for _, result in found),
        sum(sum(result.bytes.values()) for _, result in found),
    )


def test_requests_that_draft_less_cost_less_in_the_main_model() -> None:
    requests, drafts = 32, 3
    all_of_them = work_of([drafts] * requests, drafts)
    half = work_of([drafts, 0] * (requests // 2), drafts)
    none = work_of([0] * requests, drafts)
    assert none[0] < half[0] < all_of_them[0]
    assert none[1] < half[1] < all_of_them[1]
    # Of 4 rows one is left; what every core does once, and weights, stay as they are.
    assert none[1] < 0.5 * all_of_them[1]


def test_a_place_that_has_ended_keeps_one_row() -> None:
    state = np.zeros((5, 16), np.int64)
    state[:, State.DRAFTED] = 2
    state[:, State.FINISHED] = list(Finish)
    wanted = [3 if each in (Finish.RUNS, Finish.NOT_FINITE) else 1 for each in Finish]
    assert rows_of_places(state, 2).tolist() == wanted
    assert rows_of_places(state, 1).sum() < rows_of_places(state, 2).sum()


@pytest.mark.parametrize("every_row", [False, True])
def test_a_host_can_drive_single_packed_steps(every_row: bool) -> None:  # noqa: FBT001
    drafts = 2
    plan, weights = packed_plan(4, drafts)
    tensors = checkpoint()
    arrays = {spec.name: evaluate_weight(spec, tensors) for spec in weights}
    emulated = EmulatedExecutor({"decode": plan}, arrays, TARGET)
    reference = ReferenceExecutor(
        {"decode": packed(drafts)}, {"decode": plan.capacities}, ArraySource(tensors)
    )
    count, each = 3, drafts + 1 if every_row else 1
    ids = np.arange(5, 5 + count * each, dtype=np.int32)
    within = np.tile(np.arange(each, dtype=np.int32), count)
    number = np.repeat(np.arange(count, dtype=np.int32), each)
    step = StepInputs(
        token_ids=ids,
        positions=9 + within,
        slots=number * 128 + 9 + within,
        row_request=number,
        block_table=np.arange(2 * count, dtype=np.int32).reshape(count, 2),
        logit_rows=np.arange(count, dtype=np.int32) * each,
        context=12,
    )
    wanted = tensors["embedding"][ids] @ tensors["head"].T
    for executor in (emulated, reference):
        found = executor.run("decode", step)
        np.testing.assert_allclose(found.logits, wanted, atol=1e-4)
        np.testing.assert_array_equal(found.next_tokens, wanted.argmax(axis=1))


def test_other_pairs_than_the_device_is_told_of_are_refused() -> None:
    program = packed(2)
    main = program.main
    nodes = tuple(
        replace(node, op=replace(node.op, pairs=3)) if isinstance(node.op, PackRows) else node
        for node in main.nodes
    )
    with pytest.raises(GraphError, match="`packed_rows` rows with 3 pairs each") as caught:
        lower_program(
            Program((replace(main, nodes=nodes),)),
            target=TARGET,
            rows=12,
            requests=4,
            context=CONTEXT,
            blocks=BLOCKS,
            name="decode",
            results=(*RESULTS, ROW_START),
        )
    assert caught.value.code == "no-kernel"


def test_a_step_is_packed_once_and_only_with_drafts() -> None:
    once = packed(2)
    assert DropPlaceholders().run(once).program is once
    plain = parse_program(step_text(0))
    assert DropPlaceholders().run(plain).program is plain
    assert lower(step_text(2), 4, 2)[0].results == RESULTS
