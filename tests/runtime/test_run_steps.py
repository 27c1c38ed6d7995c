"""One call runs n steps: as n calls of one, as launches from Python, and up to a fault."""

import hashlib
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.kernel import Direction, Kernel, KernelArgument
from ascendfx.codegen.ascendc.launch_plan import (
    Argument,
    Buffer,
    Capacities,
    Launch,
    LaunchPlan,
    Place,
)
from ascendfx.codegen.ascendc.runner.emit_runner import HEADER
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.codegen.ascendc.weight_spec import evaluate_weight
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.ir.tensor_type import DType
from ascendfx.ir.text.parser import parse_program
from ascendfx.runtime.emulator import EmulatorError
from ascendfx.runtime.executor.emulated import EmulatedExecutor
from ascendfx.runtime.executor.reference import ReferenceExecutor
from ascendfx.runtime.package.read_plans import read_plans, read_runners
from ascendfx.runtime.package.write_plans import HASHES, RUNNERS, write_plans
from ascendfx.runtime.run_counts import RunCounts
from tests.emulator.vector_kernel import make_kernel
from tests.lowering.closed_step import CONTEXT, checkpoint, first_step, lower, step_text
from tests.lowering.plan_runner import PlanRunner

TARGET = find_target("ascend910b")
REQUESTS, DRAFTS, STEPS = 5, 2, 6
CHANGING = ("token_ids", "positions", "slots", "state", "emitted", "step", "next_tokens", "logits")

Snapshot = dict[str, NDArray[Any]]


@pytest.fixture(scope="module")
def plan() -> LaunchPlan:
    return lower(step_text(DRAFTS), REQUESTS, DRAFTS)[0]


@pytest.fixture(scope="module")
def weights() -> Snapshot:
    specs = lower(step_text(DRAFTS), REQUESTS, DRAFTS)[1]
    return {spec.name: evaluate_weight(spec, checkpoint()) for spec in specs}


@pytest.fixture(scope="module")
def executor(plan: LaunchPlan, weights: Snapshot) -> EmulatedExecutor:
    return EmulatedExecutor({"decode": plan}, weights, TARGET)


def begin(executor: EmulatedExecutor | ReferenceExecutor) -> None:
    """Write the controls of the first step."""
    for name, values in first_step(REQUESTS, DRAFTS).items():
        executor.control("decode", name)[...] = values
    sizes = executor.control("decode", "sizes")
    sizes[:4] = (REQUESTS * (DRAFTS + 1), REQUESTS, CONTEXT, 0)


def snapshot(executor: EmulatedExecutor | ReferenceExecutor) -> Snapshot:
    return {name: executor.control("decode", name).copy() for name in CHANGING}


def run(executor: EmulatedExecutor | ReferenceExecutor, groups: Sequence[int]) -> Snapshot:
    begin(executor)
    for steps in groups:
        executor.run_steps("decode", steps)
    return snapshot(executor)


@settings(max_examples=12)
@given(st.lists(st.integers(0, STEPS), max_size=STEPS).filter(lambda each: sum(each) <= STEPS))
def test_a_group_of_steps_is_so_many_single_steps(
    executor: EmulatedExecutor, groups: list[int]
) -> None:
    whole = run(executor, [*groups, STEPS - sum(groups)])
    single = run(executor, [1] * STEPS)
    assert executor.counts("decode").launches > 0
    for name in CHANGING:
        np.testing.assert_array_equal(whole[name], single[name], err_msg=name)


def test_launches_from_python_give_the_same_bits(
    executor: EmulatedExecutor, plan: LaunchPlan
) -> None:
    native = run(executor, [STEPS])
    by_hand = PlanRunner(plan, lower(step_text(DRAFTS), REQUESTS, DRAFTS)[1], checkpoint(), TARGET)
    sizes = (REQUESTS * (DRAFTS + 1), REQUESTS, CONTEXT)
    for number in range(STEPS):
        by_hand.step(first_step(REQUESTS, DRAFTS) if number == 0 else {}, sizes)
    for name in CHANGING:
        np.testing.assert_array_equal(native[name], by_hand.array(name), err_msg=name)


def test_the_interpreter_has_the_same_interface_and_tokens(
    executor: EmulatedExecutor, plan: LaunchPlan
) -> None:
    program = parse_program(step_text(DRAFTS))
    capacities = {"decode": plan.capacities}
    reference = ReferenceExecutor({"decode": program}, capacities, ArraySource(checkpoint()))
    exact, got = run(reference, [2, 4]), run(executor, [STEPS])
    for name in CHANGING:
        assert got[name].shape == exact[name].shape, name
        if name != "logits":  # sums of 32 products in f32 against float64
            np.testing.assert_array_equal(got[name], exact[name], err_msg=name)
    assert exact["state"].any()
    for each in (executor, reference):
        with pytest.raises(KeyError):
            each.control("decode", "known_tokens")


def test_a_step_uses_the_first_rows_only(executor: EmulatedExecutor, plan: LaunchPlan) -> None:
    """A step of fewer requests than the plan serves: the same as alone, in both executors."""
    program = parse_program(step_text(DRAFTS))
    capacities = {"decode": plan.capacities}
    reference = ReferenceExecutor({"decode": program}, capacities, ArraySource(checkpoint()))
    for each in (executor, reference):
        begin(each)
        each.control("decode", "sizes")[:2] = (2 * (DRAFTS + 1), 2)
        each.run_steps("decode", 3)
    got, exact = snapshot(executor), snapshot(reference)
    untouched = first_step(REQUESTS, DRAFTS)
    for name in ("token_ids", "positions", "slots", "state", "emitted"):
        np.testing.assert_array_equal(got[name], exact[name], err_msg=name)
        behind = {"emitted": np.s_[:, 2:], "state": np.s_[2:]}.get(name, np.s_[2 * (DRAFTS + 1) :])
        np.testing.assert_array_equal(got[name][behind], untouched[name][behind], err_msg=name)


def test_a_run_is_counted_and_copies_nothing(executor: EmulatedExecutor, plan: LaunchPlan) -> None:
    run(executor, [4])
    assert executor.counts("decode") == RunCounts(4 * len(plan.launches), copies=0, syncs=0)
    executor.run_steps("decode", 0)
    assert executor.counts("decode") == RunCounts(0, 0, 0)


def test_views_of_control_tensors_stay_those_of_the_device(executor: EmulatedExecutor) -> None:
    begin(executor)
    step = executor.control("decode", "step")
    executor.run_steps("decode", 3)
    assert step[0] == 3
    step[0] = 7
    assert executor.control("decode", "step")[0] == 7


COUNT = make_kernel(
    "count",
    """
const int32_t n = counterGm.GetValue(0);
counterGm.SetValue(0, n + 1);
DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(counterGm);
""",
    [KernelArgument("counter", DType.I32, Direction.IN_OUT, 16)],
)
REACH = make_kernel(
    "reach",
    """
const int32_t n = counterGm.GetValue(0);
const int32_t x = xGm.GetValue(n);
yGm.SetValue(0, x);
DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(yGm);
""",
    [
        KernelArgument("counter", DType.I32, Direction.IN, 16),
        KernelArgument("x", DType.I32, Direction.IN, 5),
        KernelArgument("y", DType.I32, Direction.OUT, 16),
    ],
)


def counting_plan(kernels: Sequence[Kernel] = (COUNT, REACH)) -> LaunchPlan:
    """Return a plan that counts twice per step and then reads what it counted out of five."""
    count = Launch("count", (Argument("counter"),), "model.layers.0: count")
    reads = (Argument("counter"), Argument("x"), Argument("y"))
    names = {"counter": 16, "x": 5, "y": 16}
    return LaunchPlan(
        name="decode",
        buffers=tuple(Buffer(n, DType.I32, (size,), Place.CONTROL) for n, size in names.items()),
        launches=(count, Launch("reach", reads, "model.layers.1: reach"), count),
        kernels=tuple(kernels),
        arena_bytes=0,
        capacities=Capacities(1, 1, 1, 1, 1),
        results=(),
    )


@pytest.fixture
def counting() -> EmulatedExecutor:
    return EmulatedExecutor({"decode": counting_plan()}, {}, TARGET)


def test_a_fault_names_its_step_and_launch_and_ends_the_run(counting: EmulatedExecutor) -> None:
    counting.control("decode", "x")[:] = range(10, 15)
    with pytest.raises(EmulatorError) as caught:
        counting.run_steps("decode", 8)
    error = caught.value
    assert (error.kernel, error.block, error.core, error.kind) == ("reach", 0, "AIV", "bounds")
    assert (error.step, error.launch, error.label) == (2, 1, "model.layers.1: reach")
    assert REACH.source.splitlines()[error.line - 1].strip() == error.excerpt
    assert "GetValue(n)" in error.excerpt
    assert str(error).endswith("   = launch 1 of step 2: model.layers.1: reach")
    assert counting.control("decode", "counter")[0] == 5, "the launches before it, and none after"
    assert counting.control("decode", "y")[0] == 13


def test_a_kernel_may_not_leave_its_argument_within_a_buffer() -> None:
    """The buffer is longer than what the kernel was planned for."""
    body = """
GlobalTensor<int32_t> wide;
wide.SetGlobalBuffer((__gm__ int32_t*)x_, 64);
const int32_t value = wide.GetValue(40);
yGm.SetValue(0, value);
DataCacheCleanAndInvalid<int32_t, CacheLine::SINGLE_CACHE_LINE>(yGm);
"""
    x = KernelArgument("x", DType.I32, Direction.IN, 8)
    y = KernelArgument("y", DType.I32, Direction.OUT, 16)
    buffers = tuple(Buffer(name, DType.I32, (64,), Place.CONTROL) for name in ("x", "y"))
    launch = Launch("leave", (Argument("x"), Argument("y")), "leave")
    plan = replace(
        counting_plan([make_kernel("leave", body, [x, y])]), buffers=buffers, launches=(launch,)
    )
    with pytest.raises(EmulatorError) as caught:
        EmulatedExecutor({"decode": plan}, {}, TARGET).run_steps("decode", 1)
    assert (caught.value.kind, caught.value.step, caught.value.launch) == ("bounds", 0, 0)


def test_an_executor_goes_on_after_a_fault(counting: EmulatedExecutor) -> None:
    with pytest.raises(EmulatorError):
        counting.run_steps("decode", 8)
    counting.control("decode", "counter")[0] = 0
    counting.run_steps("decode", 2)
    assert counting.control("decode", "counter")[0] == 4


def test_the_runner_of_a_package_is_the_one_that_runs(
    plan: LaunchPlan, weights: Snapshot, tmp_path: Path
) -> None:
    write_plans(tmp_path, [plan])
    assert {each.name for each in (tmp_path / RUNNERS).iterdir()} == {"run_decode.cpp", HEADER}
    own = tmp_path / RUNNERS / "run_decode.cpp"
    before = "        const int32_t status ="
    text = own.read_text()
    own.write_text(text.replace(before, f"        launcher->sync(launcher);\n{before}"))
    with pytest.raises(GraphError, match=r"`runners/run_decode.cpp` is not what was written"):
        read_runners(tmp_path, read_plans(tmp_path))
    hashes = tmp_path / HASHES
    digests = [hashlib.sha256(each.encode()).hexdigest() for each in (text, own.read_text())]
    hashes.write_text(hashes.read_text().replace(*digests))
    plans = read_plans(tmp_path)
    owned = EmulatedExecutor(plans, weights, TARGET, runners=read_runners(tmp_path, plans))
    run(owned, [2])
    assert owned.counts("decode").syncs == 2 * len(plan.launches)


def test_a_package_without_a_runner_is_damaged(plan: LaunchPlan, tmp_path: Path) -> None:
    write_plans(tmp_path, [plan])
    plans = read_plans(tmp_path)
    lines = (tmp_path / HASHES).read_text().splitlines(keepends=True)
    (tmp_path / RUNNERS / "run_decode.cpp").unlink()
    for wanted in (lines, [each for each in lines if RUNNERS not in each]):
        (tmp_path / HASHES).write_text("".join(wanted))
        with pytest.raises(GraphError, match=r"`runners/run_decode.cpp` is missing"):
            read_runners(tmp_path, plans)
