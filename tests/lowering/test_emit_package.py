import subprocess

import pytest

from ascendfx.codegen.ascendc.emit_package import MANIFEST, emit_package, package_files
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.read_package import read_plans
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
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
    emit_package(tmp_path / "package", plans, TARGET)
    assert read_plans(tmp_path / "package") == {plan.name: plan for plan in plans}
    assert [path.name for path in tmp_path.iterdir()] == ["package"]


def test_the_manifest_is_one_sha256sum_understands(plans, tmp_path):
    emit_package(tmp_path / "package", plans, TARGET)
    result = subprocess.run(
        ["sha256sum", "--quiet", "-c", MANIFEST],  # noqa: S607
        cwd=tmp_path / "package",
        check=False,
        capture_output=True,
    )
    assert result.returncode == 0, result.stderr


def test_equal_plans_make_equal_packages(plans):
    assert package_files(plans, TARGET) == package_files(tuple(reversed(plans)), TARGET)


def test_an_older_package_is_replaced(plans, tmp_path):
    emit_package(tmp_path / "package", plans, TARGET)
    emit_package(tmp_path / "package", plans[:1], TARGET)
    assert set(read_plans(tmp_path / "package")) == {"decode"}


def test_a_folder_with_other_contents_is_left_alone(plans, tmp_path):
    (tmp_path / "notes").write_text("mine")
    with pytest.raises(GraphError, match="has contents but is no package"):
        emit_package(tmp_path, plans, TARGET)
    assert (tmp_path / "notes").read_text() == "mine"


def test_a_changed_file_is_noticed(plans, tmp_path):
    emit_package(tmp_path / "package", plans, TARGET)
    kernel = tmp_path / "package" / "kernels" / "decode_argmax_n96_f32.cpp"
    kernel.write_text(kernel.read_text() + " ")
    with pytest.raises(GraphError, match=r"`kernels/decode_argmax_n96_f32.cpp` is not what"):
        read_plans(tmp_path / "package")


def test_a_missing_file_is_noticed(plans, tmp_path):
    emit_package(tmp_path / "package", plans, TARGET)
    (tmp_path / "package" / "plan-decode.json").unlink()
    with pytest.raises(GraphError, match=r"`plan-decode.json` is missing"):
        read_plans(tmp_path / "package")


def test_two_plans_of_one_name_are_refused(plans):
    from dataclasses import replace  # noqa: PLC0415

    with pytest.raises(GraphError, match="two plans want to write different texts"):
        package_files((plans[0], replace(plans[1], name="decode")), TARGET)
