"""The group of each row, for groups of any size, empty ones too."""

import functools

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize, Kernel
from ascendfx.codegen.ascendc.kernels.row_groups import emit_row_groups, plan_row_groups
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir import ops
from ascendfx.ir.diagnostic import GraphError
from tests.golden_file import Golden
from tests.kernels.vector_case import FEW_CORES, TARGET, launch

CAPACITY, GROUPS = 5_000, 9


@functools.cache
def _kernel(capacity: int, groups: int, target: Target) -> Kernel:
    plan = plan_row_groups(rows=DeviceSize(0, capacity), groups=groups, target=target)
    return emit_row_groups(plan, "row_groups")


def _check(sizes: list[int], rows: int, target: Target) -> None:
    kernel = _kernel(CAPACITY, len(sizes), target)
    ends = np.cumsum(sizes).astype(np.int32)
    wanted = ops.RowGroups(rows).reference(ends)[0]
    y = launch(kernel, {"ends": ends}, rows)["y"]
    np.testing.assert_array_equal(y[:rows], wanted)
    assert (y[rows:] == -1).all()


@pytest.mark.parametrize("target", [TARGET, FEW_CORES], ids=["all cores", "two cores"])
@pytest.mark.parametrize(
    "sizes",
    [
        [0] * 8 + [CAPACITY],
        [CAPACITY] + [0] * 8,
        [1] * GROUPS,
        [3, 0, 17, 1, 0, 2_100, 2, 0, 5],
    ],
    ids=["last", "first", "one row each", "ragged"],
)
def test_every_row_has_its_group(sizes: list[int], target: Target) -> None:
    for rows in {0, 1, sum(sizes), min(CAPACITY, sum(sizes) + 9)}:
        _check(sizes, rows, target)


@given(st.lists(st.integers(0, 12), min_size=GROUPS, max_size=GROUPS))
@settings(max_examples=20)
def test_any_group_sizes_are_right(sizes: list[int]) -> None:
    _check(sizes, sum(sizes), TARGET)


def test_a_single_group_has_all_rows() -> None:
    _check([7], 12, TARGET)


def test_text_is_the_checked_in_text(golden: Golden) -> None:
    golden.check("ascendc/row_groups.cpp", _kernel(1_024, 256, TARGET).source)


def test_no_groups_are_refused() -> None:
    with pytest.raises(GraphError, match="row-groups: groups is 0"):
        plan_row_groups(rows=DeviceSize(0, 8), groups=0, target=TARGET)
