import json
import subprocess
from dataclasses import replace

import pytest

from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.location import Location
from ascendfx.ir.program import Program
from ascendfx.runtime.package.read_plans import read_plans
from ascendfx.runtime.package.write_plans import HASHES, plan_files, write_plans
from tests.lowering.serving_programs import Shape, serving_program

TARGET = find_target("ascend910b")


@pytest.fixture(scope="module")
def plans():
    shared = {"target": TARGET, "context": 256, "blocks": 8}
    decode = serving_program(Shape())
    prefill = serving_program(Shape(expanded=True), "prefill")
    return (
        lower_program(decode, rows=4, requests=4, name="decode", **shared)[0],
        lower_program(prefill, rows=64, requests=1, name="prefill", **shared)[0],
    )


def test_plans_come_back_as_they_were_written(plans, tmp_path):
    write_plans(tmp_path, plans)
    assert read_plans(tmp_path) == {plan.name: plan for plan in plans}


def test_plans_name_lines_by_names_that_hold_on_other_machines():
    program = serving_program(Shape())
    place = Location(json.__file__, 3, "layers.0")
    graphs = tuple(
        Graph(g.name, tuple(replace(node, location=place) for node in g.nodes), g.outputs)
        for g in program.graphs
    )
    moved = Program(graphs, program.recipes)
    shared = {"target": TARGET, "context": 256, "blocks": 8}
    plan, _ = lower_program(moved, rows=4, requests=4, name="decode", **shared)
    assert {work.location for work in plan.works} == {"json/__init__.py:3 in layers.0"}


def test_the_list_of_hashes_is_one_sha256sum_understands(plans, tmp_path):
    write_plans(tmp_path, plans)
    result = subprocess.run(
        ["sha256sum", "--quiet", "-c", HASHES],  # noqa: S607
        cwd=tmp_path,
        check=False,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr


def test_the_order_of_plans_does_not_matter(plans):
    assert plan_files(plans) == plan_files(tuple(reversed(plans)))


def test_a_changed_file_is_noticed(plans, tmp_path):
    write_plans(tmp_path, plans)
    kernel = tmp_path / "kernels" / "decode_argmax_n96_f32.cpp"
    kernel.write_text(kernel.read_text() + " ")
    with pytest.raises(GraphError, match=r"`kernels/decode_argmax_n96_f32.cpp` is not what"):
        read_plans(tmp_path)


def test_a_missing_file_is_noticed(plans, tmp_path):
    write_plans(tmp_path, plans)
    (tmp_path / "plan-decode.json").unlink()
    with pytest.raises(GraphError, match=r"`plan-decode.json` is missing"):
        read_plans(tmp_path)


def test_two_plans_of_one_name_are_refused(plans):
    with pytest.raises(GraphError, match="two plans want to write different texts"):
        plan_files((plans[0], replace(plans[1], name="decode")))
