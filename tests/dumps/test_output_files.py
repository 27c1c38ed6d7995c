"""Where subcommands write: the same places are refused by all, before any work."""

from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.dumps.tensor_dump import TensorDump, write_tensors_file
from tests.dumps.planted_dump import dump_with

COMMANDS = ("reduce", "report", "tensors")


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("dumps") / "dump"
    dump_with("swiglu_swapped", folder)
    return folder


def refused(*words: str | Path) -> str:
    """Return the one error of a command."""
    result = CliRunner().invoke(cli, list(map(str, words)))
    assert isinstance(result.exception, GraphError), result.output
    return str(result.exception)


@pytest.mark.parametrize("command", COMMANDS)
def test_places_that_no_file_can_have(command: str, dump: Path, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("kept", encoding="utf-8")
    (tmp_path / "circle").symlink_to(tmp_path / "circle")
    for place, why in {
        "": "it is a folder",
        tmp_path: "it is a folder",
        dump: "it is a folder",
        "/dev/full": "it is no regular file",
        tmp_path / "file" / "in": "",
        tmp_path / "circle": "",
        dump / "dump.json": "it belongs to the dump",
        dump / "timing.json": "it belongs to the dump",
        dump / "serving" / "new": "it belongs to the dump",
    }.items():
        message = refused(command, dump, "-o", place)
        assert message.startswith("error[not-writable]"), message
        assert why in message
    assert not Path("/dev/full").is_file()
    assert (tmp_path / "file").read_text(encoding="utf-8") == "kept"


@pytest.mark.parametrize("command", COMMANDS)
def test_the_folder_is_made_and_an_older_file_replaced(
    command: str, dump: Path, tmp_path: Path
) -> None:
    weights = [] if command == "report" else ["--random", "0", "--verify-tokens", "5"]
    output = tmp_path / "new" / "folder" / "out"
    for _ in range(2):
        done = CliRunner().invoke(cli, [command, str(dump), "-o", str(output), *weights])
        assert done.exit_code == 0, done.output
        assert [each.name for each in output.parent.iterdir()] == ["out"]
        assert output.stat().st_size > 8
        output.write_bytes(b"")


def test_what_safetensors_reports_is_an_error_of_ours(tmp_path: Path) -> None:
    run = TensorDump("run", (), {"x": np.zeros(3)})
    with pytest.raises(GraphError, match="not-writable"):
        write_tensors_file(tmp_path / "nowhere" / "a", run)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("option", ["--random", "--tokens-seed", "--verify-tokens"])
@pytest.mark.parametrize("command", ["bisect", "reduce", "tensors"])
def test_negative_numbers_are_wrong_use(command: str, option: str, dump: Path) -> None:
    out = [] if command == "bisect" else ["-o", "out"]
    done = CliRunner().invoke(cli, [command, str(dump), *out, option, "-5"])
    assert done.exit_code == 2
    assert f"Invalid value for '{option}'" in done.output


def test_bisect_says_on_what_it_compared(dump: Path) -> None:
    words = ["bisect", str(dump), "--random", "0", "--verify-tokens", "7"]
    done = CliRunner().invoke(cli, words)
    assert done.exit_code == 1, done.output
    assert "compared on 2 texts of 7 tokens\n" in done.output


def test_bisect_says_that_the_module_of_a_user_cannot_be_imported(tmp_path: Path) -> None:
    dump_with("swiglu_swapped", tmp_path)
    for index in tmp_path.glob("*/index.json"):
        text = index.read_text(encoding="utf-8")
        index.write_text(text.replace("tests.dumps.planted", "gone"), encoding="utf-8")
    done = CliRunner().invoke(cli, ["bisect", str(tmp_path), "--random", "0", "--allow-code"])
    assert done.exit_code == 1, done.output
    assert "pass: apply-rules (" in done.stdout
    assert "rule: " not in done.stdout
    says, first, hint = done.stderr.splitlines()[:3]
    assert says.startswith("the dump says: nothing was compared while compiling; ")
    assert first.startswith("pass `apply-rules` cannot be run again: `gone:")
    assert hint.startswith("hint: run the command in the folder of its module")
    assert hint.endswith("without it no rule of it can be named")
