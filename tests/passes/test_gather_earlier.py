"""Rows that are chosen earlier are the same rows, and the work on the others is gone."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Op
from ascendfx.ir.ops import (
    CacheWrite,
    CombineExperts,
    GroupedLinear,
    RaggedAttention,
)
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.gather_earlier import GatherEarlier
from tests.passes.rows_of_steps import ROWS, choosing_steps, tensors_of

TOLERANCE = 1e-10
"""Of sums over at most 16 terms in float64, up to 20 operations deep, of numbers near one."""


@settings(max_examples=300, deadline=None)
@given(choosing_steps(), st.integers(0, 99))
def test_a_step_computes_the_same(program: Program, seed: int) -> None:
    after = GatherEarlier().run(program).program
    verify_program(after)
    tensors = tensors_of(program, seed)
    sizes = {"context": 4}
    truth, mine = (interpret(each, tensors, sizes=sizes) for each in (program, after))
    for a, b in zip(truth, mine, strict=True):
        np.testing.assert_allclose(b, a, rtol=TOLERANCE, atol=TOLERANCE)


@settings(max_examples=100, deadline=None)
@given(choosing_steps())
def test_nothing_is_left_to_move(program: Program) -> None:
    once = GatherEarlier().run(program).program
    again = GatherEarlier().run(once)
    assert again.program is once or not again.statistics["functions for chosen rows"]


@settings(max_examples=100, deadline=None)
@given(choosing_steps())
def test_no_more_work_is_done(program: Program) -> None:
    after = GatherEarlier().run(program).program
    for kind in (RaggedAttention, GroupedLinear, CombineExperts, CacheWrite):
        assert executed(after, kind) <= executed(program, kind)


def executed(program: Program, kind: type[Op]) -> int:
    """Return how often a step runs an operation."""

    def count(graph: Graph) -> int:
        inside = (
            count(program.by_name[callee])
            for node in graph.nodes
            if isinstance(callee := getattr(node.op, "callee", None), str)
        )
        return sum(isinstance(node.op, kind) for node in graph.nodes) + sum(inside)

    return count(program.main)


LAYER = """graph @main {
  %0 = input "x" : f32[rows, 8]
  %1 = input "positions" : i32[rows]
  %2 = input "slots" : i32[rows]
  %3 = input "row_request" : i32[rows]
  %4 = input "block_table" : i32[requests, table_blocks]
  %5 = input "logit_rows" : i32[requests]
  %6 = input "cache.0" : f32[blocks, 128, 2, 4]
  %7 = call %0, %1, %2, %3, %4, %6 {callee="layer", keys=[["w", "w"], ["e", "e"], ["r", "r"]]} : f32[rows, 8], f32[blocks, 128, 2, 4]
  %8 = gather_rows %7, %5 : f32[requests, 8]
  return %8, RESULT%7.1
}

graph @layer {
  %0 = input "x" : f32[rows, 8]
  %1 = input "positions" : i32[rows]
  %2 = input "slots" : i32[rows]
  %3 = input "row_request" : i32[rows]
  %4 = input "block_table" : i32[requests, table_blocks]
  %5 = input "cache" : f32[blocks, 128, 2, 4]
  %6 = param "w" : f32[8, 8]
  %7 = linear %0, %6 : f32[rows, 8]
  %8 = reshape %7 {shape=[<rows>, 2, 4]} : f32[rows, 2, 4]
  %9 = cache_write %5, %2, %8 : f32[blocks, 128, 2, 4]
  %10 = cache_read %9, %4 {context=<context>} : f32[requests, context, 2, 4]
  %11 = ragged_attention %8, %10, %10, %1, %3 {parts=1, scale=0.5} : f32[rows, 2, 4]
  %12 = reshape %11 {shape=[<rows>, 8]} : f32[rows, 8]
  %13 = param "r" : f32[4, 8]
  %14 = linear %12, %13 : f32[rows, 4]
  %15 = route_topk %14 {k=2, scoring="softmax", biased=false, groups=1, topk_groups=1, group_score="max", masked_value=0.0, normalize=false, scale=1.0} : f32[rows, 2], i64[rows, 2]
  %16 = dispatch_experts %15.1 {experts=4} : i32[2*rows], i32[2*rows], i32[4]
  %17 = gather_rows %12, %16 : f32[2*rows, 8]
  %18 = param "e" : f32[4, 8, 8]
  %19 = grouped_linear %17, %18, %16.2 : f32[2*rows, 8]
  %20 = combine_experts %19, %16.1, %15 : f32[rows, 8]
  %21 = add %20, %0 : f32[rows, 8]
  return %21, %9
}
"""  # noqa: E501


def sizes_of(program: Program, kind: type[Op]) -> list[str]:
    """Return the first axis of the results of an operation, wherever it stands."""
    nodes = (node for graph in program.graphs for node in graph.nodes)
    return [str(node.types[0].shape[0]) for node in nodes if isinstance(node.op, kind)]


def test_a_layer_whose_last_rows_are_wanted_attends_and_routes_for_these() -> None:
    result = GatherEarlier().run(parse_program(LAYER.replace("RESULT", "")))
    assert result.statistics == {"operations on chosen rows": 9, "functions for chosen rows": 1}
    assert [graph.name for graph in result.program.graphs] == ["main", "layer_chosen"]
    assert sizes_of(result.program, RaggedAttention) == ["requests"]
    assert sizes_of(result.program, GroupedLinear) == ["2*requests"]
    layer = result.program.by_name["layer_chosen"]
    (write,) = [node for node in layer.nodes if isinstance(node.op, CacheWrite)]
    assert layer.type_of(write.operands[2]).shape[0] == ROWS
    assert result.program.recipes == {}


def test_a_layer_whose_rows_are_all_wanted_stays() -> None:
    program = parse_program(LAYER.replace("RESULT", "%7, "))
    assert GatherEarlier().run(program).program is program


PAIRS = {
    "%19": "f32[2*rows, 8]",
    "%17": "f32[2*rows, 8]",
    "%16": "i32[2*rows]",
    "%16.1": "i32[2*rows]",
    "%16.2": "i32[4]",
}


@pytest.mark.parametrize("value", PAIRS)
def test_pairs_that_somebody_reads_in_their_order_stay_complete(value: str) -> None:
    text = LAYER.replace("RESULT", "%7.2, ").replace("return %21, %9", f"return %21, %9, {value}")
    kind = "f32[blocks, 128, 2, 4]"
    text = text.replace(f"{kind}\n  %8 = gather", f"{kind}, {PAIRS[value]}\n  %8 = gather")
    after = GatherEarlier().run(parse_program(text)).program
    assert sizes_of(after, GroupedLinear) == ["2*rows"]
    assert sizes_of(after, CombineExperts) == ["rows"]
    assert sizes_of(after, RaggedAttention) == ["rows"]


HEAD = """graph @main {
  %0 = input "x" : f32[rows, 8]
  %1 = input "ids" : i32[requests]
  %2 = input "others" : i32[requests]
  %3 = param "w" : f32[4, 8]
  %4 = linear %0, %3 : f32[rows, 4]
"""

ROUTED = """
  %5 = route_topk %4 {k=2, scoring="softmax", biased=false, groups=1, topk_groups=1, group_score="max", masked_value=0.0, normalize=false, scale=1.0} : f32[rows, 2], i64[rows, 2]
  %6 = dispatch_experts %5.1 {experts=4} : i32[2*rows], i32[2*rows], i32[4]
  %7 = cast %5.1 {dtype=i32} : i32[rows, 2]
  %8 = dispatch_experts %7 {experts=4} : i32[2*rows], i32[2*rows], i32[4]
  %9 = param "e" : f32[4, 8, 8]
"""  # noqa: E501

STAYS = {
    "rows of two operands are read by one addition": """
  %5 = input "y" : f32[rows, 8]
  %6 = add %0, %5 : f32[rows, 8]
  %7 = gather_rows %6, %1 : f32[requests, 8]
  return %7
""",
    "rows meet": """
  %5 = softmax %4 {axis=0} : f32[rows, 4]
  %6 = gather_rows %5, %1 : f32[requests, 4]
  return %6
""",
    "somebody reads all rows": """
  %5 = gather_rows %4, %1 : f32[requests, 4]
  return %5, %4
""",
    "two choices differ": """
  %5 = gather_rows %4, %1 : f32[requests, 4]
  %6 = gather_rows %4, %2 : f32[requests, 4]
  return %5, %6
""",
    "choices of two results differ": """
  %5 = topk %4 {k=2} : f32[rows, 2], i64[rows, 2]
  %6 = gather_rows %5, %1 : f32[requests, 2]
  %7 = gather_rows %5.1, %2 : i64[requests, 2]
  return %6, %7
""",
    "rows are chosen too late": """
  %5 = add %1, %2 : i32[requests]
  %6 = gather_rows %4, %5 : f32[requests, 4]
  return %6
""",
    "pairs are chosen": ROUTED
    + """
  %10 = gather_rows %0, %6 : f32[2*rows, 8]
  %11 = gather_rows %10, %1 : f32[requests, 8]
  return %11
""",
    "rows are chosen by places": ROUTED
    + """
  %10 = gather_rows %0, %6.1 : f32[2*rows, 8]
  %11 = grouped_linear %10, %9, %6.2 : f32[2*rows, 8]
  %12 = combine_experts %11, %6.1, %5 : f32[rows, 8]
  %13 = gather_rows %12, %1 : f32[requests, 8]
  return %13
""",
    "pairs are chosen again": ROUTED
    + """
  %10 = gather_rows %0, %6 : f32[2*rows, 8]
  %11 = gather_rows %10, %6 : f32[2*rows, 8]
  %12 = combine_experts %11, %6.1, %5 : f32[rows, 8]
  %13 = gather_rows %12, %1 : f32[requests, 8]
  return %13
""",
    "groups are those of another dispatch": ROUTED
    + """
  %10 = gather_rows %0, %6 : f32[2*rows, 8]
  %11 = grouped_linear %10, %9, %8.2 : f32[2*rows, 8]
  %12 = combine_experts %11, %6.1, %5 : f32[rows, 8]
  %13 = gather_rows %12, %1 : f32[requests, 8]
  return %13
""",
    "pairs are put back by the places of another dispatch": ROUTED
    + """
  %10 = gather_rows %0, %6 : f32[2*rows, 8]
  %11 = grouped_linear %10, %9, %6.2 : f32[2*rows, 8]
  %12 = combine_experts %11, %8.1, %5 : f32[rows, 8]
  %13 = gather_rows %12, %1 : f32[requests, 8]
  return %13
""",
    "pairs of two dispatches are joined": ROUTED
    + """
  %10 = gather_rows %0, %6 : f32[2*rows, 8]
  %11 = gather_rows %0, %8 : f32[2*rows, 8]
  %12 = add %10, %11 : f32[2*rows, 8]
  %13 = combine_experts %12, %6.1, %5 : f32[rows, 8]
  %14 = gather_rows %13, %1 : f32[requests, 8]
  return %14
""",
    "pairs of two dispatches are joined and put back by the second": ROUTED
    + """
  %10 = gather_rows %0, %6 : f32[2*rows, 8]
  %11 = gather_rows %0, %8 : f32[2*rows, 8]
  %12 = add %10, %11 : f32[2*rows, 8]
  %13 = combine_experts %12, %8.1, %5 : f32[rows, 8]
  %14 = gather_rows %13, %1 : f32[requests, 8]
  return %14
""",
}


@pytest.mark.parametrize("body", STAYS.values(), ids=STAYS.keys())
def test_rows_are_chosen_where_they_were(body: str) -> None:
    program = parse_program(f"{HEAD}{body}}}\n")
    assert GatherEarlier().run(program).program is program


MOVES = {
    "one norm": (
        """
  %5 = param "g" : f32[8]
  %6 = rms_norm %0, %5 {eps=1e-06} : f32[rows, 8]
  %7 = gather_rows %6, %1 : f32[requests, 8]
  return %7, %4
""",
        ["linear", "gather_rows", "rms_norm"],
    ),
    "what is repeated for every row": (
        """
  %5 = expand %3 {shape=[<rows>, 4, 8]} : f32[rows, 4, 8]
  %6 = reshape %0 {shape=[<rows>, 1, 8]} : f32[rows, 1, 8]
  %7 = add %5, %6 : f32[rows, 4, 8]
  %8 = gather_rows %7, %1 : f32[requests, 4, 8]
  return %8
""",
        ["expand", "gather_rows", "reshape", "add"],
    ),
    "a part that is read of all rows, too": (
        """
  %5 = slice %4 {axis=1, start=1, stop=3} : f32[rows, 2]
  %6 = param "v" : f32[5, 2]
  %7 = linear %5, %6 : f32[rows, 5]
  %8 = gather_rows %7, %1 : f32[requests, 5]
  return %8, %5
""",
        ["linear", "slice", "gather_rows", "slice", "linear"],
    ),
}


@pytest.mark.parametrize(("body", "operations"), MOVES.values(), ids=MOVES.keys())
def test_rows_are_chosen_before(body: str, operations: list[str]) -> None:
    program = GatherEarlier().run(parse_program(f"{HEAD}{body}}}\n")).program
    made = [node.op.mnemonic for node in program.main.nodes]
    assert [each for each in made if each not in ("input", "param")] == operations


CALLS = """graph @main {
  %0 = input "x" : f32[rows, 8]
  %1 = input "ids" : i32[requests]
  %2 = input "others" : i32[requests]
  %3 = call %0 {callee="layer", keys=[["w", "w"]]} : f32[rows, 4], f32[rows, 4]
  %4 = gather_rows %3, %1 : f32[requests, 4]
  %5 = gather_rows %3.1, IDS : f32[requests, 4]
  return %4, %5
}

graph @layer {
  %0 = input "x" : f32[rows, 8]
  %1 = param "w" : f32[4, 8]
  %2 = linear %0, %1 : f32[rows, 4]
  %3 = FUNCTION : f32[rows, 4]
  return %3, %3
}
"""


@pytest.mark.parametrize(
    ("ids", "function", "copies"),
    [
        ("%1", "negate %2", 1),
        ("%2", "negate %2", 0),
        ("%1", "cumulative_sum %2 {axis=0}", 0),
    ],
)
def test_a_function_is_copied_if_its_rows_are_chosen_alike_and_something_is_saved(
    ids: str, function: str, copies: int
) -> None:
    program = parse_program(CALLS.replace("IDS", ids).replace("FUNCTION", function))
    result = GatherEarlier().run(program)
    assert result.statistics.get("functions for chosen rows", 0) == copies
    assert (result.program is program) == (not copies)
