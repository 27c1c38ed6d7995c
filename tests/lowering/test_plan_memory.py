from itertools import combinations

from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.lowering.plan_memory import (
    ALIGNMENT,
    Lifetime,
    find_lifetimes,
    plan_memory,
)


@st.composite
def buffers(draw):
    count = draw(st.integers(1, 24))
    sizes = {f"b{i}": draw(st.integers(0, 5000)) for i in range(count)}
    lifetimes = {}
    for name in sizes:
        first = draw(st.integers(0, 12))
        lifetimes[name] = Lifetime(first, first + draw(st.integers(0, 6)))
    return sizes, lifetimes


@given(buffers())
def test_no_two_buffers_alive_together_overlap(case):
    sizes, lifetimes = case
    plan = plan_memory(sizes, lifetimes)
    for a, b in combinations(sizes, 2):
        if lifetimes[a].overlaps(lifetimes[b]):
            first, second = sorted((a, b), key=lambda name: plan.offsets[name])
            assert plan.offsets[first] + sizes[first] <= plan.offsets[second]


@given(buffers())
def test_buffers_are_aligned_and_inside_the_arena(case):
    sizes, lifetimes = case
    plan = plan_memory(sizes, lifetimes)
    assert all(offset % ALIGNMENT == 0 for offset in plan.offsets.values())
    assert all(plan.offsets[name] + size <= plan.bytes for name, size in sizes.items())
    assert plan.lower_bound <= plan.bytes


def test_a_chain_of_equal_buffers_needs_two_places():
    touched = [(f"b{i}", f"b{i + 1}") for i in range(9)]
    plan = plan_memory({f"b{i}": ALIGNMENT for i in range(10)}, find_lifetimes(touched))
    assert plan.bytes == plan.lower_bound == 2 * ALIGNMENT


def test_a_lifetime_goes_from_the_first_to_the_last_launch_that_touches_the_buffer():
    assert find_lifetimes([("a",), ("b",), ("a", "c")]) == {
        "a": Lifetime(0, 2),
        "b": Lifetime(1, 1),
        "c": Lifetime(2, 2),
    }
