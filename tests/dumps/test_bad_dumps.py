"""Dumps, cases and tensor files that are missing, damaged or of something else: one clear error."""

import json
import shutil
from functools import partial
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

from ascendfx.codegen.ascendc.launch_plan import Capacities, LaunchPlan
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.verification.follow_truth import find_truth
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.dumps.dump_header import DumpHeader
from ascendfx.runtime.dumps.dump_weights import check_weights
from ascendfx.runtime.dumps.read_dump import read_dump
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.start_verifier import token_ids
from tests.dumps.planted_dump import dump_with
from tests.passes.captured_models import captured


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps") / "dump"
    dump_with("swiglu_swapped", folder)
    return folder


@pytest.fixture
def dump(sound: Path, tmp_path: Path) -> Path:
    return Path(shutil.copytree(sound, tmp_path / "dump"))


def refused(*words: str | Path) -> str:
    """Return the one error of a command."""
    result = CliRunner().invoke(cli, list(map(str, words)))
    assert isinstance(result.exception, GraphError), result.output
    return str(result.exception)


@pytest.mark.parametrize("word", ["bisect", "reduce", "tensors"])
def test_a_place_without_a_dump(word: str, tmp_path: Path) -> None:
    out = () if word == "bisect" else ("-o", tmp_path / "out")
    (tmp_path / "empty").mkdir()
    for name, why in (
        ("nowhere", f"there is no directory {tmp_path / 'nowhere'}"),
        ("empty", f"{tmp_path / 'empty'} is no dump directory: it has no dump.json"),
    ):
        message = refused(word, tmp_path / name, *out)
        assert message.startswith(f"error[not-a-dump]: {why}")
        assert "--dump-dir DIR" in message


def test_another_version(dump: Path) -> None:
    header = json.loads((dump / "dump.json").read_text(encoding="utf-8"))
    (dump / "dump.json").write_text(json.dumps(header | {"format": 1}), encoding="utf-8")
    assert "error[dump-version]: the dump has format 1, this version reads 2" in refused(
        "bisect", dump
    )


@pytest.mark.parametrize("text", ["", "[]", '{"format": 2}', "\0"])
def test_a_damaged_header(dump: Path, text: str) -> None:
    (dump / "dump.json").write_text(text, encoding="utf-8")
    assert "dump.json" in refused("bisect", dump)


def test_a_program_that_is_cut_off(dump: Path) -> None:
    file = dump / "serving" / "03-simplify.ir"
    text = file.read_text(encoding="utf-8")
    file.write_text(text[: len(text) // 2], encoding="utf-8")
    message = refused("bisect", dump, "--random", "0")
    assert message.startswith("error[syntax]")
    assert "03-simplify.ir:" in message


def test_a_program_that_is_missing(dump: Path) -> None:
    (dump / "serving" / "03-simplify.ir").unlink()
    assert "error[damaged-dump]: " in refused("bisect", dump, "--random", "0")


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("file", "../../etc/passwd"),
        ("file", "09-other.ir"),
        ("fidelity", "perfect"),
        ("changed", "yes"),
        ("parameters", 7),
    ],
)
def test_an_edited_index(dump: Path, key: str, value: object) -> None:
    file = dump / "serving" / "index.json"
    index = json.loads(file.read_text(encoding="utf-8"))
    index[1][key] = value
    file.write_text(json.dumps(index), encoding="utf-8")
    assert "index.json: it was edited or is of another version" in refused("bisect", dump)


def test_an_index_that_is_no_list(dump: Path) -> None:
    (dump / "serving" / "index.json").write_text("{", encoding="utf-8")
    assert "error[damaged-dump]" in refused("bisect", dump)


def test_a_dump_of_a_module_needs_weights(dump: Path) -> None:
    message = refused("bisect", dump)
    assert "error[no-weights]: the dump is of a module, so it names no checkpoint" in message
    assert "--random SEED" in message


def test_a_compilation_that_ended_before_its_first_pass(dump: Path) -> None:
    shutil.rmtree(dump / "serving")
    assert "has no stage `serving`" in refused("bisect", dump)


def test_the_checkpoint_of_another_model() -> None:
    program = captured("llama_f32")
    weights = random_weights(program, 0)
    key = next(iter(weights))
    other = {**weights, key: np.zeros((3, 5))}
    with pytest.raises(GraphError, match=r"error\[other-checkpoint\]: elsewhere has .*\[3, 5\]"):
        check_weights(program, ArraySource(other), "elsewhere")
    del other[key]
    with pytest.raises(GraphError, match=rf"error\[other-checkpoint\]: elsewhere has no `{key}`"):
        check_weights(program, ArraySource(other), "elsewhere")
    with pytest.raises(GraphError, match=r"error\[missing-tensor\]: the weights have no"):
        find_truth(program, other, token_ids(None, 9))


def test_files_that_are_no_cases(tmp_path: Path) -> None:
    file = tmp_path / "case.json"
    assert "error[not-a-case]" in refused("replay", file)
    for text, code in (
        ("", "not-a-case"),
        ("{}", "not-a-case"),
        ('{"kind": "ascendfx case", "format": 9}', "case-version"),
        ('{"kind": "ascendfx case", "format": 1}', "damaged-case"),
    ):
        file.write_text(text, encoding="utf-8")
        assert f"error[{code}]" in refused("replay", file)


def test_files_that_are_no_tensor_dumps(tmp_path: Path) -> None:
    file = tmp_path / "other.safetensors"
    assert "error[not-a-tensor-dump]" in refused("compare", file, file)
    save_file({"x": np.zeros(3)}, file)
    assert "error[not-a-tensor-dump]" in refused("compare", file, file)


def test_wrong_use_of_the_command_line(dump: Path, tmp_path: Path) -> None:
    run = CliRunner().invoke
    assert "or a model directory and --eager" in run(cli, ["compare", "x"]).output
    assert "--eager needs a text" in run(cli, ["compare", "x", "--eager"]).output
    assert "-p belongs to --eager" in run(cli, ["compare", "x", "y", "-p", "text"]).output
    out = ["-o", str(tmp_path / "t"), "--random", "0"]
    done = run(cli, ["tensors", str(dump), "--stage", "other", *out])
    assert "the dump has no stage `other`; it has serving, decode" in done.output
    done = run(cli, ["tensors", str(dump), "--stage", "serving", "--after", "99", *out])
    said = " ".join(done.output.replace("\u2502", " ").split())
    most = len(read_dump(dump).stages[0].on_tokens)
    assert f"stage serving has {most} pass" in said
    assert f"99 is none of 0 to {most}" in said


@pytest.mark.parametrize("word", ["bisect", "reduce", "tensors"])
@pytest.mark.parametrize("order", [1, -1])
def test_weights_are_of_one_source(word: str, order: int, dump: Path, tmp_path: Path) -> None:
    out = [] if word == "bisect" else ["-o", str(tmp_path / "t")]
    pairs = [["--random", "0"], ["--checkpoint", str(tmp_path)]][::order]
    done = CliRunner().invoke(cli, [word, str(dump), *out, *pairs[0], *pairs[1]])
    assert done.exit_code == 2
    assert "pass --checkpoint or --random, not both" in done.output
    assert not (tmp_path / "t").exists()


def test_reading_does_not_touch_the_dump(dump: Path) -> None:
    before = {path: path.read_bytes() for path in dump.rglob("*") if path.is_file()}
    for stage in read_dump(dump).stages:
        for number in range(len(stage.passes) + 1):
            stage.program(number)
    assert before == {path: path.read_bytes() for path in dump.rglob("*") if path.is_file()}


def _without_mistake(folder: Path) -> Path:
    """Write a dump of two stages as a compilation does."""
    writer = DumpWriter(folder)
    writer.begin(DumpHeader(None, None, "ascend910b2", {}, "ordered", ("serving", "decode")))
    program = captured("llama_f32")
    for stage in ("serving", "decode"):
        writer.stage(stage, program)
        run_pipeline(program, [ShareCommon()], observe=partial(writer.passed, stage))
    writer.plan(LaunchPlan("decode", (), (), (), 0, Capacities(1, 1, 1, 1, 1), ()))
    return folder


def _random(word: str, dump: Path, out: Path) -> tuple[str | Path, ...]:
    rest = () if word == "bisect" else ("-o", out)
    return (word, dump, "--random", "0", "--verify-tokens", "3", *rest)


@pytest.mark.parametrize("word", ["bisect", "reduce", "tensors"])
@pytest.mark.parametrize("lost", ["decode", "decode/plan.json", "decode/kernels.json"])
def test_a_compilation_that_was_stopped_is_not_said_to_be_right(
    word: str, lost: str, tmp_path: Path
) -> None:
    dump = _without_mistake(tmp_path / "dump")
    done = CliRunner().invoke(cli, list(map(str, _random(word, dump, tmp_path / "whole"))))
    assert done.exit_code == (1 if word == "reduce" else 0), done.output  # nothing to reduce
    place = dump / lost
    shutil.rmtree(place) if place.is_dir() else place.unlink()
    message = refused(*_random(word, dump, tmp_path / "out"))
    assert message.startswith(f"error[damaged-dump]: {dump} is not whole")
    assert "decode" in message
    assert "compile again" in message
    assert not (tmp_path / "out").exists()


def test_what_a_stopped_compilation_left_can_be_looked_at_by_name(tmp_path: Path) -> None:
    dump = _without_mistake(tmp_path / "dump")
    shutil.rmtree(dump / "decode")
    given = _random("tensors", dump, tmp_path / "out")
    for one in (("--stage", "serving"), ("--after", "1"), ()):
        message = refused(*given, *one)
        assert "name both stage and program, for example --stage serving --after 1" in message
        assert "(there are 0 to 1)" in message
    words = (*given, "--stage", "serving", "--after", "1")
    assert CliRunner().invoke(cli, list(map(str, words))).exit_code == 0
    assert (tmp_path / "out").is_file()
