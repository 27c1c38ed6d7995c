"""Which operations become one launch; written as the operations of each launch, in order."""

import pytest

from ascendfx.codegen.ascendc.lowering.select_kernels import select_kernels
from ascendfx.codegen.ascendc.lowering.step import KernelStep
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.text.parser import parse_program

CAPACITY = {"rows": 4, "requests": 4, "context": 256, "blocks": 8, "table_blocks": 2}
TARGET = find_target("ascend910b")


def lower(body):
    return select_kernels(parse_program(f"graph @g {{\n{body}\n}}").main, CAPACITY, 2, TARGET)


def launches(body):
    """Return the mnemonics of every launch."""
    graph = parse_program(f"graph @g {{\n{body}\n}}").main
    steps = select_kernels(graph, CAPACITY, 2, TARGET).steps
    return [
        [graph.nodes[position].op.mnemonic for position in step.covers]
        for step in steps
        if isinstance(step, KernelStep)
    ]


HEAD = """\
  %0 = input "x" : f32[rows, 64]
  %1 = input "y" : f32[rows, 64]
  %2 = param "gain" : f32[64]
  %3 = param "w" : f32[64, 64]
"""


def test_an_addition_and_the_norm_of_its_sum_are_one_launch_with_two_results():
    body = (
        HEAD
        + """
      %4 = add %0, %1 : f32[rows, 64]
      %5 = rms_norm %4, %2 {eps=1e-06} : f32[rows, 64]
      return %4, %5
    """
    )
    assert launches(body) == [["add", "rms_norm"]]
    (step,) = lower(body).steps
    assert len(step.operands) == 5  # x, y, gain, sum, norm


def test_a_product_between_two_chains_keeps_them_apart_and_is_named():
    body = (
        HEAD
        + """
      %4 = rms_norm %0, %2 {eps=1e-06} : f32[rows, 64]
      %5 = linear %4, %3 : f32[rows, 64]
      %6 = add %0, %5 : f32[rows, 64]
      return %6
    """
    )
    assert launches(body) == [["rms_norm"], ["linear"], ["add"]]
    (remark,) = lower(body).remarks
    assert remark.endswith("linear stands between them")
    assert "%4 = rms_norm" in remark
    assert "%6 = add" in remark


def test_a_way_around_through_a_product_never_becomes_a_circle():
    body = (
        HEAD
        + """
      %4 = add %0, %1 : f32[rows, 64]
      %5 = linear %4, %3 : f32[rows, 64]
      %6 = multiply %4, %5 : f32[rows, 64]
      %7 = linear %6, %3 : f32[rows, 64]
      %8 = add %7, %4 : f32[rows, 64]
      return %8
    """
    )
    assert launches(body) == [["add"], ["linear"], ["multiply"], ["linear"], ["add"]]


def test_neighbours_that_read_one_tensor_share_a_launch():
    body = (
        HEAD
        + """
      %4 = slice %0 {axis=1, start=0, stop=48} : f32[rows, 48]
      %5 = slice %0 {axis=1, start=48, stop=64} : f32[rows, 16]
      %6 = silu %4 : f32[rows, 48]
      %7 = silu %5 : f32[rows, 16]
      return %6, %7
    """
    )
    assert launches(body) == [["silu", "silu"]]


def test_chains_over_other_rows_stay_apart():
    body = (
        HEAD
        + """
      %4 = input "ids" : i32[requests]
      %5 = add %0, %1 : f32[rows, 64]
      %6 = gather_rows %5, %4 : f32[requests, 64]
      %7 = silu %6 : f32[requests, 64]
      return %5, %7
    """
    )
    assert launches(body) == [["add"], ["gather_rows"], ["silu"]]


def test_both_halves_of_a_product_are_cut_inside_the_launch():
    body = (
        HEAD
        + """
      %4 = linear %0, %3 : f32[rows, 64]
      %5 = slice %4 {axis=1, start=0, stop=32} : f32[rows, 32]
      %6 = slice %4 {axis=1, start=32, stop=64} : f32[rows, 32]
      %7 = swiglu %5, %6 : f32[rows, 32]
      return %7
    """
    )
    assert launches(body) == [["linear"], ["swiglu"]]


def test_experts_take_over_shared_experts_and_residual():
    body = """
      %0 = input "y" : f32[2*rows, 64]
      %1 = input "place" : i32[2*rows]
      %2 = input "weights" : f32[rows, 2]
      %3 = input "shared" : f32[rows, 64]
      %4 = input "residual" : f32[rows, 64]
      %5 = combine_experts %0, %1, %2 : f32[rows, 64]
      %6 = add %5, %3 : f32[rows, 64]
      %7 = add %4, %6 : f32[rows, 64]
      return %7
    """
    assert launches(body) == [["combine_experts", "add", "add"]]


def test_a_sum_that_someone_else_reads_is_not_taken_over():
    body = """
      %0 = input "y" : f32[2*rows, 64]
      %1 = input "place" : i32[2*rows]
      %2 = input "weights" : f32[rows, 2]
      %3 = input "shared" : f32[rows, 64]
      %4 = combine_experts %0, %1, %2 : f32[rows, 64]
      %5 = add %4, %3 : f32[rows, 64]
      return %4, %5
    """
    assert launches(body) == [["combine_experts"], ["add"]]


def test_a_chain_too_wide_for_the_chip_is_split_in_the_order_of_the_graph():
    names = [f"%{i}" for i in range(12)]
    body = "\n".join(
        [f'{name} = input "x{i}" : f32[rows, 16384]' for i, name in enumerate(names)]
        + ["%12 = add %0, %1 : f32[rows, 16384]"]
        + [f"%{11 + i} = add %{10 + i}, %{i} : f32[rows, 16384]" for i in range(2, 12)]
        + ["%23 = reduce_sum %22 {axes=[1]} : f32[rows, 1]", "return %23"]
    )
    # The sum needs whole rows, so the rows cannot go through in pieces.
    found = launches(body)
    assert len(found) > 1
    assert sum(map(len, found)) == 12


def test_an_operation_without_kernel_is_refused_with_its_line():
    with pytest.raises(GraphError) as caught:
        lower(HEAD + "%4 = sin %0 : f32[rows, 64]\n return %4\n")
    assert str(caught.value) == (
        "error[no-kernel]: sin: no kernel family takes it; as a chain: sin is no operation of a "
        "chain\n"
        "  --> <text>:6\n"
        "   |\n"
        "   | %4 = sin %0 : f32[rows, 64]\n"
        "   |"
    )
