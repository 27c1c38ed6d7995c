import json
from dataclasses import replace

import pytest

from ascendfx.codegen.ascendc.launch_plan import FORMAT, Place, print_plan, read_plan
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from tests.lowering.serving_programs import Shape, serving_program


@pytest.fixture(scope="module")
def plan():
    sizes = {"rows": 4, "requests": 4, "context": 256, "blocks": 8}
    program = serving_program(Shape())
    return lower_program(program, target=find_target("ascend910b"), name="decode", **sizes)[0]


def sources(plan):
    return {kernel.name: kernel.source for kernel in plan.kernels}


def test_a_plan_survives_its_json_form(plan):
    assert read_plan(print_plan(plan), sources(plan)) == plan


def test_the_branches_of_a_tree_are_told_if_there_are_any(plan):
    assert "branches" not in json.loads(print_plan(plan))["capacities"]
    tree = replace(plan, capacities=replace(plan.capacities, drafts=3, branches=(2, 1)))
    assert read_plan(print_plan(tree), sources(plan)) == tree
    assert tree.capacities.tree.parents == (-1, 0, 0, 1)
    chain = replace(plan.capacities, drafts=2)
    assert chain.tree.parents == (-1, 0, 1)


def test_the_json_form_holds_no_kernel_text(plan):
    assert "__aicore__" not in print_plan(plan)


def test_a_plan_of_another_version_is_refused(plan):
    data = json.loads(print_plan(plan)) | {"format": FORMAT - 1}
    with pytest.raises(GraphError) as caught:
        read_plan(json.dumps(data), sources(plan))
    assert str(caught.value) == (
        "error[plan-format]: the plan has format 5, this version reads 6\n"
        "\n"
        "hint: compile the package again"
    )


def test_a_missing_kernel_text_is_named(plan):
    texts = sources(plan)
    del texts["decode_argmax_n96_f32"]
    with pytest.raises(GraphError, match="no text of kernel `decode_argmax_n96_f32`"):
        read_plan(print_plan(plan), texts)


def test_buffers_come_by_place_and_by_name(plan):
    assert [buffer.name for buffer in plan.of_place(Place.CACHE)] == [
        "cache.0.0",
        "cache.0.1",
        "cache.1.0",
        "cache.1.1",
    ]
    assert plan.buffer_by_name["block_table"].bytes == 4 * 2 * 4
