"""Names that are empty, devices, pipes and folders where a file is wanted: refused at once."""

import os
from pathlib import Path

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.read_directory import stored_tensors
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.start_verifier import LONGEST, check_mode
from tests.bad_input.ended import WEIGHTS, Command


def _commands(group, path=()):
    for name, each in group.commands.items():
        if hasattr(each, "commands"):
            yield from _commands(each, (*path, name))
        else:
            yield (*path, name), each


def test_every_path_on_the_command_line_may_be_refused_if_it_is_empty() -> None:
    later = {"report", "reduce", "tensors"}  # their -o: `not-writable`, it is a folder
    for name, each in _commands(cli):
        for parameter in each.params:
            if hasattr(parameter.type, "path_type") and not (
                name[0] in later and "-o" in parameter.opts
            ):
                known = isinstance(parameter.type, UserPath) or parameter.name == "metrics"
                assert known, (name, parameter.name)


@pytest.mark.parametrize("name", ["", "  "])
def test_an_empty_name_is_not_the_working_directory(
    name: str, original: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    for words in (
        ("compile", original, "-o", name),
        ("compile", name, "-o", "pkg"),
        ("compile", original, "-o", "pkg", "--dump-dir", name),
        ("run", name, "-p", "hello"),
        ("bisect", name),
        ("compare", name, name),
        ("opt", name),
    ):
        ended = command(*words)
        assert ended.code == 2
        assert "the name is empty" in ended.error
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("package", "dump"), [("x", "x"), ("x", "x/d"), ("x/p", "x"), ("x", "y/../x"), ("link", "x")]
)
def test_a_package_and_a_dump_need_two_places(
    package: str, dump: str, original: Path, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "x")
    words = ("compile", original, "-o", tmp_path / package, "--dump-dir", tmp_path / dump)
    ended = command(*words)
    assert ended.code == 1
    assert ended.error.startswith(f"error[not-writable]: {tmp_path / dump} cannot be written: the")
    assert sorted(each.name for each in tmp_path.iterdir()) == ["link"]


def test_folders_are_no_tensor_dumps(original: Path, command: Command) -> None:
    ended = command("compare", original, original)
    assert ended.code == 1
    assert "is a directory, not a tensor dump" in ended.error
    assert "--eager" in ended.error


@pytest.mark.parametrize("words", [("opt",), ("replay",), ("run", "x", "--prompts-file")])
def test_a_device_without_end_is_not_read(words: tuple[str, ...], command: Command) -> None:
    ended = command(*words, "/dev/zero")
    assert ended.code == 1
    assert "/dev/zero is a device, which has no end" in ended.error


def test_weights_are_regular_files(tmp_path: Path, checkpoint: Path, command: Command) -> None:
    (checkpoint / WEIGHTS).unlink()
    os.mkfifo(checkpoint / WEIGHTS)
    with pytest.raises(GraphError, match="is no regular file"):
        stored_tensors(checkpoint)
    ended = command("compile", checkpoint, "-o", tmp_path / "pkg")
    assert ended.code == 1
    assert "damaged-file" in ended.error


@pytest.mark.parametrize("length", [LONGEST + 1, 100_000_000])
def test_texts_of_a_verification_have_a_limit(
    length: int, original: Path, tmp_path: Path, command: Command
) -> None:
    for words in (("bisect", tmp_path), ("compile", original, "-o", tmp_path / "p")):
        ended = command(*words, "--verify-tokens", length)
        assert ended.code == 2
        assert f"1<=x<={LONGEST}" in ended.error
    with pytest.raises(GraphError, match="at most 4,096") as caught:
        check_mode("each-pass", None, length)
    assert caught.value.code == "bad-limit"
