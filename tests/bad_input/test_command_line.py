"""What the command line says to a new user: options, not arguments of Python, and what to do."""

import re
from pathlib import Path

import click
import numpy as np
import pytest
from click.testing import CliRunner
from safetensors.numpy import save_file

import ascendfx
from ascendfx import GraphError
from ascendfx.runtime.checkpoint import capture_model
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.cli.option_words import in_options, options_of
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.package.save_package import save_package
from tests.bad_input.ended import Command
from tests.dumps.planted_dump import dump_with

MODEL = ascendfx.bundled_model()
OPTIONS = options_of(cli)


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('pass verify="each-pass" too, or leave verify_length out',) * 2,
        ("compile with a larger `max_context`", "compile with a larger `--max-context`"),
        ("max_context=3,000,000 has positions", "--max-context 3,000,000 has positions"),
        ('compile with strategy="ordered"', "compile with --strategy ordered"),
        ('dtype="float32" or dtype="bfloat16"', "--dtype float32 or --dtype bfloat16"),
        ('ascendfx.compile(model, executor="reference"), or `ascendfx run`', "`ascendfx run`"),
        ("/in/max_context/max_batch.json", "/in/max_context/max_batch.json"),
        ("model.max_batch and my_max_batch", "model.max_batch and my_max_batch"),
        ("verify the target", "verify the target"),
        ("load with verify=False", "load with --no-verify"),
        ("draft_tree=3,2,1 has 7 rows", "--draft-tree 3,2,1 has 7 rows"),
        ("stop_ids holds 9; end others by `Engine.cancel`", "--stop-id holds 9; leave some out"),
    ],
)
def test_arguments_are_shown_as_options(text: str, shown: str) -> None:
    if text == shown:
        shown = shown.replace('verify="each-pass"', "--verify each-pass")
        shown = shown.replace("verify_length", "--verify-tokens")
    assert in_options(text, OPTIONS) == shown


def test_an_error_of_the_library_names_the_options(tmp_path: Path, command: Command) -> None:
    ended = command("compile", MODEL, "-o", tmp_path / "pkg", "--verify-tokens", 4)
    assert ended.code == 2
    assert "--verify-tokens is given, but nothing is verified" in ended.error
    assert "hint: pass --verify each-pass too" in ended.error
    ended = command("compile", MODEL, "-o", tmp_path / "pkg", "--max-context", 2**31)
    assert ended.code == 2
    assert "`--max-context`" in ended.error
    assert "max_context" not in ended.error


@pytest.mark.parametrize("size", ["--max-batch", "--max-context", "--prefill-chunk"])
@pytest.mark.parametrize("value", ["-3", "0", "2147483649", "many"])
def test_a_limit_out_of_range_is_wrong_use(size: str, value: str, command: Command) -> None:
    ended = command("compile", MODEL, "-o", "pkg", size, value)
    assert ended.code == 2
    assert f"Invalid value for '{size}'" in ended.error


def test_the_number_of_blocks_has_a_range(command: Command) -> None:
    assert command("compile", MODEL, "-o", "pkg", "--cache-blocks", 0).code == 2


def test_a_limit_in_python_says_what_is_missing() -> None:
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(MODEL, max_batch=-3)
    assert caught.value.hint == "pass 1 or more"
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(MODEL, max_batch=1.5)  # pyright: ignore[reportArgumentType]
    assert caught.value.hint == "pass a whole number, 1 or more"


def test_the_target_may_be_written_in_capitals(tmp_path: Path, command: Command) -> None:
    ended = command("compile", tmp_path / "none", "-o", tmp_path / "pkg", "-t", "Ascend910B")
    assert ended.error.startswith("error[no-model]")


def test_every_command_has_one_line_that_is_not_cut_off() -> None:
    def groups(command: click.Command, *names: str) -> None:
        if isinstance(command, click.Group):
            shown = CliRunner().invoke(cli, [*names, "--help"]).output
            assert "..." not in shown.partition("Commands:")[2]
            for name, each in command.commands.items():
                groups(each, *names, name)

    groups(cli)
    shown = " ".join(CliRunner().invoke(cli, ["compile", "--help"]).output.split())
    assert "ascend910b stands for ascend910b2" in shown


@pytest.mark.parametrize(
    "name", [("compile",), ("golden", "record"), ("golden", "check"), ("run",)]
)
def test_who_builds_or_traces_takes_a_cache(name: tuple[str, ...]) -> None:
    assert "--kernel-cache" in CliRunner().invoke(cli, [*name, "--help"]).output


def test_the_cache_holds_the_trace_of_a_compilation(
    original: Path, tmp_path: Path, command: Command
) -> None:
    sizes = ("--max-batch", 2, "--max-context", 128, "--kernel-cache", tmp_path / "cache")
    command("compile", original, "-o", tmp_path / "pkg", *sizes)
    assert list((tmp_path / "cache").rglob("*.safetensors"))
    command("golden", "record", original, "-o", tmp_path / "golden", *sizes)
    assert (tmp_path / "golden" / "golden.json").is_file()


def test_a_prompts_file_may_begin_with_a_mark(
    saved: Path, tmp_path: Path, command: Command
) -> None:
    file = tmp_path / "prompts"
    file.write_bytes("\ufeffThe\n".encode())
    ended = command("run", saved, "--prompts-file", file)
    assert "token id" in ended.error  # the tokenizer has more ids than the model: it was read
    assert "\ufeff" not in ended.error
    graph = tmp_path / "g.ir"
    text = 'graph @g {\n  %0 = input "x" : f32[2]\n  return %0\n}\n'
    graph.write_bytes(("\ufeff" + text).encode())
    assert CliRunner().invoke(cli, ["opt", str(graph)]).stdout == text


def test_a_prompts_file_of_blank_lines_is_named(tmp_path: Path, command: Command) -> None:
    (tmp_path / "prompts").write_text("\n  \n")
    ended = command("run", tmp_path, "--prompts-file", tmp_path / "prompts")
    assert ended.code == 2
    assert f"{tmp_path / 'prompts'} holds no prompt: all its lines are blank" in ended.error


def test_eager_is_compared_on_one_text(command: Command) -> None:
    ended = command("compare", MODEL, "--eager", "-p", "hi", "-p", "ho")
    assert ended.code == 2
    assert "--eager compares one text, got 2: run it for each" in ended.error


def test_an_empty_text_is_the_same_error_everywhere(
    saved: Path,
    original: Path,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    # The begin token of this tokenizer is a text; others have none.
    assert command("run", saved, "-p", "", "-n", 1).code == 0
    monkeypatch.setattr(TextCodec, "encode", lambda _, text: [1] * len(text))
    for words in (
        ("run", saved, "-p", ""),
        ("golden", "record", original, "-o", tmp_path / "golden", "-p", ""),
        ("compare", original, "--eager", "-p", ""),
    ):
        ended = command(*words)
        assert ended.code == 1
        assert ended.error.startswith("error[empty-prompt]: prompt 0 has no tokens\n")
    ended = command("golden", "record", original, "-o", tmp_path / "g", "-p", "a", "-p", "")
    assert ended.error.startswith("error[empty-prompt]: prompt 1 has no tokens\n")


def test_a_dump_without_torch_names_random_weights(
    original: Path, tmp_path: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    dump = tmp_path / "dump"
    ascendfx.compile(original, executor="reference", max_batch=2, max_context=128, dump_dir=dump)
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(capture_model, "find_spec", lambda _: None)
    ended = command("bisect", dump)
    assert ended.error.startswith(
        "error[missing-package]: reading the layout of a model needs the package `torch`"
    )
    assert "or `--random SEED` for random weights" in ended.error


@pytest.mark.parametrize("content", [None, "", "{", "[]", '{"kind": "another"}'])
def test_what_is_no_case_says_when_one_is_written(
    content: str | None, tmp_path: Path, command: Command
) -> None:
    file = tmp_path / "case.json"
    if content is not None:
        file.write_text(content)
    for each in (file, tmp_path):
        ended = command("replay", each)
        assert ended.code == 1
        assert ended.error.startswith(f"error[not-a-case]: {each}")
        assert "if it finds no mistake, there is nothing to replay" in ended.error


def test_a_model_directory_is_to_be_compiled_first(original: Path, command: Command) -> None:
    ended = command("run", original, "-p", "x")
    assert ended.error.startswith(f"error[not-a-package]: {original} is the directory of a model")
    assert f"`ascendfx compile {original} -o PKG`" in ended.error


@pytest.mark.parametrize(
    ("words", "code"),
    [
        (("run", "-p", "x"), "not-a-package"),
        (("report",), "not-a-dump"),
        (("bisect",), "not-a-dump"),
        (("reduce", "-o", "case"), "not-a-dump"),
        (("tensors", "-o", "file"), "not-a-dump"),
        (("golden", "check"), "not-a-golden"),
        (("compare", "--eager", "-p", "x"), "no-model"),
        (("golden", "record", "-o", "golden", "-p", "x"), "no-model"),
    ],
)
def test_a_folder_that_does_not_exist_is_said_to(
    words: tuple[str, ...],
    code: str,
    tmp_path: Path,
    command: Command,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = command(*words, "nowhere")
    assert ended.code == 1
    assert re.match(rf"error\[{code}\]: there is no (folder|directory) nowhere\n", ended.error)


def test_a_pass_that_cannot_be_imported_has_its_remedy(tmp_path: Path, command: Command) -> None:
    dump_with("swiglu_swapped", tmp_path)
    for index in tmp_path.glob("*/index.json"):
        text = index.read_text(encoding="utf-8")
        index.write_text(text.replace("tests.dumps.planted", "gone"), encoding="utf-8")
    for words in (("bisect",), ("reduce", "-o", tmp_path / "case.json")):
        ended = command(*words, tmp_path, "--random", 0, "--allow-code")
        assert "`gone:" in ended.error
        assert "hint: run the command in the folder of its module, or name" in ended.error
    ended = command("replay", tmp_path / "case.json", "--allow-code")
    assert "hint: run the command in the folder of its module, or name" in ended.out


def test_a_file_of_other_tensors_is_told_apart(tmp_path: Path, command: Command) -> None:
    save_file({"x": np.zeros(3)}, tmp_path / "a")
    ended = command("compare", tmp_path / "a", tmp_path / "a")
    assert ended.error.startswith(
        f"error[not-a-tensor-dump]: {tmp_path / 'a'} is no tensor dump: it holds tensors, but does "
        "not say of which run\n"
    )


def test_errors_of_the_disk_name_what_the_user_named(
    compiled: CompiledModel, tmp_path: Path, command: Command
) -> None:
    dump = tmp_path / "dump"
    dump_with("swiglu_swapped", dump)
    for words in (
        ("tensors", dump, "-o", "/proc/file", "--random", 0),
        ("report", dump, "-o", "/proc/file"),
        ("golden", "record", MODEL, "-o", "/proc/file"),
    ):
        ended = command(*words)
        assert ended.error.startswith("error[not-writable]: /proc/file"), ended.error
        assert not re.search(r"\.tmp|\.file", ended.error), ended.error
        assert "hint: its folder does not exist and cannot be made here" in ended.error
    with pytest.raises(GraphError) as caught:
        save_package(compiled, Path("/proc/package"))
    assert "/proc/package" in caught.value.reason
    assert "/." not in caught.value.reason
