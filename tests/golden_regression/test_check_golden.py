"""What a check says: nothing if nothing changed, else what moved, where, and by how much."""

import shutil
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.golden.check_golden import Checked, check_golden
from ascendfx.runtime.golden.golden_directory import TRUTH, read_golden
from ascendfx.runtime.golden.make_golden import Subject
from ascendfx.runtime.golden.record_golden import record_golden
from tests.golden_regression.conftest import LIMITS, subject
from tests.golden_regression.passes_of_a_user import CoarseGates, DoubleGates, ExchangeSummands


def kinds(checked: Checked) -> set[str]:
    return {change.kind for change in checked.changes}


def files(folder: Path) -> dict[str, bytes]:
    return {
        str(file.relative_to(folder)): file.read_bytes()
        for file in folder.rglob("*")
        if file.is_file()
    }


def test_an_unchanged_model_is_as_recorded(recorded: Path) -> None:
    before = files(recorded)
    found = check_golden(recorded, lambda _: subject())
    assert not found.lines
    assert set(found.compiled.plans) == {"decode", "prefill"}
    assert files(recorded) == before
    assert [each.name for each in recorded.parent.iterdir()] == [recorded.name]


def test_equal_models_give_equal_bytes_without_paths_of_this_machine(
    recorded: Path, tmp_path: Path
) -> None:
    record_golden(subject(tokens=read_golden(recorded).header.tokens), tmp_path / "again")
    one, other = files(recorded), files(tmp_path / "again")
    one.pop("golden.json")  # it names the model relative to itself
    other.pop("golden.json")
    assert one == other
    assert not [name for name, data in one.items() if str(Path.cwd()).encode() in data]


def test_a_pass_that_moves_numbers_is_named_with_operation_value_and_line(recorded: Path) -> None:
    found = check_golden(recorded, lambda _: subject(passes=(DoubleGates(),)))
    first = found.changes[0]
    assert first.kind == "pass"
    assert first.what.startswith("pass `double-gates` (serving/")
    assert "is declared real, but result 0 of @" in first.what
    value, line, error = first.lines
    assert value.startswith("value: @")
    assert " = add " in value
    assert line.startswith("line of the model: ")
    assert ".py:" in line
    assert error.startswith("error against float64: ")
    assert {"output", "program", "plan", "kernel"} <= kinds(found)
    moved = [change for change in found.changes if change.kind == "output"]
    assert [change.what.split(" moved")[0] for change in moved] == [
        "the logits of decode",
        "the logits of prefill",
    ]
    assert moved[0].lines[1].startswith("error against the recorded float64 truth: was ")


def test_a_change_of_programs_alone_is_told(recorded: Path) -> None:
    found = check_golden(recorded, lambda _: subject(passes=(ExchangeSummands(),)))
    assert "program" in kinds(found)
    assert not kinds(found) & {"pass", "output", "weights"}
    assert found.lines[-1] == "outputs: rounding explains every difference"


def test_a_program_that_was_edited_is_told_with_line_and_diff(golden_copy: Path) -> None:
    (file,) = (golden_copy / "dump" / "serving").glob("02-*.ir")
    text = file.read_text(encoding="utf-8")
    file.write_text(text.replace("[2, 8, 64]", "[2, 8, 65]").replace("= add ", "= subtract ", 1))
    found = check_golden(golden_copy, lambda _: subject())
    (program,) = found.changes
    assert program.kind == "program"
    assert program.what.startswith(f"serving/{file.name}: the program after pass `")
    assert "first `%" in program.what
    assert any(line.startswith("-") and "= subtract " in line for line in program.lines)
    assert any(line.startswith("+") and "= add " in line for line in program.lines)


def test_a_kernel_that_changed_is_told_with_its_diff(golden_copy: Path) -> None:
    kernels = sorted((golden_copy / "dump" / "decode" / "kernels").glob("*.cpp"))
    kernels[0].write_text(kernels[0].read_text(encoding="utf-8") + "// older\n", encoding="utf-8")
    kernels[1].unlink()
    found = check_golden(golden_copy, lambda _: subject())
    assert [change.what for change in found.changes] == [
        f"decode/kernels/{kernels[0].name} differs",
        f"decode/kernels/{kernels[1].name} is new",
    ]
    assert "-// older" in found.changes[0].lines


def test_a_weight_that_changed_is_named_with_its_reader(recorded: Path, tmp_path: Path) -> None:
    model = tmp_path / "model"
    shutil.copytree(ascendfx.bundled_model(), model)
    key = "model.layers.1.self_attn.o_proj.weight"
    (file,) = (each for each in model.glob("*.safetensors") if key in load_file(each))
    tensors = {name: np.array(value) for name, value in load_file(file).items()}
    tensors[key][0, 0] += 1
    save_file(tensors, file, metadata={"format": "pt"})
    found = check_golden(recorded, lambda _: Subject(model, limits=LIMITS))
    assert found.changes[0].kind == "weights"
    assert found.changes[0].what.startswith("1 of ")
    assert found.changes[0].lines[0].startswith(f"{key}: read by `%")
    moved = {change.what.split(" moved")[0] for change in found.changes[1:]}
    assert moved == {"the float64 truth", "the logits of decode", "the logits of prefill"}


def test_other_options_and_texts_are_told(recorded: Path) -> None:
    found = check_golden(recorded, lambda _: subject(dtype="bfloat16", tokens=[[1, 2]]))
    assert [change.kind for change in found.changes] == ["options", "options"]
    assert found.changes[1].what.endswith("are [[1, 2]]")


def test_an_update_shows_what_differs_then_rewrites(golden_copy: Path) -> None:
    seen: list[bool] = []
    swapped = subject(passes=(ExchangeSummands(),))
    before = files(golden_copy)
    check_golden(
        golden_copy,
        lambda _: swapped,
        update=True,
        tell=lambda found: seen.append(bool(found.lines) and files(golden_copy) == before),
    )
    assert seen == [True]
    assert not check_golden(golden_copy, lambda _: swapped).lines
    assert [each.name for each in golden_copy.parent.iterdir()] == [golden_copy.name]


def test_what_breaks_its_fidelity_is_never_recorded(golden_copy: Path, tmp_path: Path) -> None:
    broken = subject(passes=(DoubleGates(),))
    before = files(golden_copy)
    with pytest.raises(GraphError, match=r"error\[golden-not-true\]: .* the logits of decode"):
        check_golden(golden_copy, lambda _: broken, update=True)
    with pytest.raises(GraphError, match=r"error\[golden-not-true\]"):
        record_golden(broken, tmp_path / "other")
    assert files(golden_copy) == before
    assert [each.name for each in tmp_path.iterdir()] == [golden_copy.name]


def test_a_lossy_pass_is_held_to_what_was_recorded(tmp_path: Path) -> None:
    coarse = subject(passes=(CoarseGates(),))
    record_golden(coarse, tmp_path / "lossy")
    assert not check_golden(tmp_path / "lossy", lambda _: coarse).lines
    found = check_golden(tmp_path / "lossy", lambda _: subject())
    assert "output" in kinds(found)


def test_the_recorded_truth_is_that_of_the_captured_model(recorded: Path) -> None:
    outputs = read_golden(recorded).outputs
    assert set(outputs) == {TRUTH, "decode", "prefill"}
    truth = outputs[TRUTH]
    assert truth.logits.shape[:2] == (2, 2)
    for each in outputs.values():
        assert np.abs(each.logits - truth.logits).max() <= each.rounding + truth.rounding
        assert each.rounding < 1e-9 * np.abs(truth.logits).max()
