"""Random schedules: whatever happens around a request, it gets the tokens that it gets alone."""

import pytest
from hypothesis import settings
from hypothesis.stateful import (
    run_state_machine_as_test,
)

from tests.engine.schedules import COMMON, Schedules


def test_schedules() -> None:
    run_state_machine_as_test(Schedules, settings=settings(COMMON, max_examples=150))


@pytest.mark.nightly
def test_ten_thousand_schedules(capsys: pytest.CaptureFixture[str]) -> None:
    before = Schedules.ran
    wanted = settings(COMMON, max_examples=10_000, derandomize=False, database=None)
    run_state_machine_as_test(Schedules, settings=wanted)
    with capsys.disabled():
        print(f"\n{Schedules.ran - before} schedules")  # noqa: T201
