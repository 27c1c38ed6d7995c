"""Exit codes are those of the table in ``runtime/cli/README.md``."""

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.cli import commands
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.cli.main import main as run_main
from ascendfx.runtime.emulator.error import EmulatorError

README = Path(__file__).parents[2] / "runtime" / "cli" / "README.md"
MODEL = str(ascendfx.bundled_model())
RUN = ("run", "nowhere", "-p", "x")
COMPILE = ("compile", MODEL, "-o", "pkg")
RECORD = ("golden", "record", MODEL, "-o", "golden")
TYPICAL = ("--verification", "typical")
RELAXED = ("--verification", "relaxed")
WARM = ("--temperature", "1")


def test_the_table_has_the_codes_that_are_tested_here() -> None:
    codes = re.findall(r"^\| (\d) \|", README.read_text(encoding="utf-8"), re.MULTILINE)
    assert codes == ["0", "1", "2", "3"]


def test_what_is_done_exits_with_0() -> None:
    assert CliRunner().invoke(cli, ["opt", "--list"]).exit_code == 0


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (GraphError("no-model", "there is none", hint="name one"), 1),
        (MemoryError(), 1),
        (KeyboardInterrupt(), 1),
        (EmulatorError("copy", 0, "AIV 0", "MTE2", 7, 64, "read beyond the tensor"), 3),
    ],
)
def test_an_error_has_its_code(
    error: BaseException, code: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise error

    monkeypatch.setattr(commands, "cli", _command(fail))
    with pytest.raises(SystemExit) as stopped:
        run_main()
    assert stopped.value.code == code


def _command(fail: Callable[[], None]) -> Callable[[], None]:
    fail.params = []  # pyright: ignore[reportFunctionMemberAccess]  # as a command without options
    return fail


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ((), "Usage:"),
        (("run", "nowhere"), "no prompt"),
        ((*RUN, "--temperature", "nan"), "--temperature must be at least 0 and finite, got nan"),
        ((*RUN, "--temperature", "-1"), "hint: --temperature 0 is greedy; --top-k 0"),
        ((*RUN, "--top-p", "0"), "--top-p must be above 0"),
        ((*RUN, "--top-k", "-1"), "--top-k must be at least 0"),
        ((*RUN, "--min-p", "2"), "--min-p must be between 0 and 1"),
        ((*RUN, "--seed", "-1"), "--seed must be at least 0"),
        ((*RUN, "-p", "y", *WARM, "--seed", str(2**64 - 1)), "--seed must be at most"),
        ((*RUN, "--repetition-penalty", "0"), "--repetition-penalty must be"),
        ((*RUN, "--presence-penalty", "3"), "--presence-penalty must be"),
        ((*RUN, "--frequency-penalty", "3"), "hint: --repetition-penalty 1, --presence-penalty 0"),
        ((*RUN, *TYPICAL, "--typical-threshold", "2"), "--typical-threshold must be between"),
        ((*RUN, *TYPICAL, "--typical-alpha", "-1"), "--typical-alpha must be between"),
        ((*RUN, *RELAXED, "--relaxed-top-k", "0"), "--relaxed-top-k must be at least 1"),
        ((*RUN, *RELAXED, "--relaxed-delta", "2"), "--relaxed-delta must be between"),
        ((*RUN, "--stop-id", "-1"), "'--stop-id'"),
        ((*RUN, *[w for i in range(9) for w in ("--stop-id", str(i))]), "--stop-id holds 9 ids"),
        ((*RUN, "--min-new-tokens", "-1"), "'--min-new-tokens'"),
        ((*RUN, "--draft-tokens", "-1"), "'--draft-tokens'"),
        ((*COMPILE, "--plans", "decoding"), "no plan is called `decoding`; known: decode, prefill"),
        ((*COMPILE, "--plans", ","), "no plan is asked for"),
        ((*COMPILE, "--group-steps", "0"), "'--group-steps'"),
        ((*COMPILE, "--max-context", "1"), "--max-context must be at least 2"),
        ((*COMPILE, "--max-context", str(2**31)), "hint: compile with a smaller `--max-context`"),
        ((*COMPILE, "--draft-tree", "9,9,9"), "--draft-tree 9,9,9 has 28 rows"),
        ((*COMPILE, "--draft-tree", "3,1", "--draft-tokens", "1"), "not --draft-tokens 1"),
        ((*COMPILE, "--verify-tokens", "4"), "hint: pass --verify each-pass too"),
        ((*RECORD, "--draft-tree", "0"), "--draft-tree must be at least 1"),
        (("demo", "--draft-tree", "0"), "--draft-tree must be at least 1"),
    ],
)
def test_a_wrong_command_line_exits_with_2_and_names_the_option(
    words: tuple[str, ...], said: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(cli, words)
    assert ended.exit_code == 2, ended.output
    assert said in ended.output
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("words", "where"),
    [
        ((*RUN, "--typical-threshold", "0.5"), "without --verification typical"),
        ((*RUN, "--typical-alpha", "0.3"), "without --verification typical"),
        ((*RUN, *RELAXED, "--typical-alpha", "0.5"), "without --verification typical"),
        ((*RUN, "--relaxed-top-k", "3"), "without --verification relaxed"),
        ((*RUN, *TYPICAL, "--relaxed-delta", "0.5"), "without --verification relaxed"),
        ((*RUN, "--top-k", "3"), "at --temperature 0"),
        ((*RUN, "--top-p", "0.5"), "at --temperature 0"),
        ((*RUN, "--min-p", "0.5"), "at --temperature 0"),
        ((*RUN, "--seed", "3"), "at --temperature 0"),
        ((*RUN, "--verification", "block"), "at --temperature 0"),
        ((*RUN, *WARM, "--verification", "block", "--draft-tokens", "0"), "with --draft-tokens 0"),
        ((*RUN, *TYPICAL, "--draft-tokens", "0"), "with --draft-tokens 0"),
        ((*RUN, "--adaptive-drafts", "--draft-tokens", "1"), "with --draft-tokens"),
        ((*RUN, "--min-new-tokens", "9", "-n", "4"), "beyond --max-new-tokens"),
        ((*RUN, "--min-new-tokens", "9", "--ignore-eos"), "with --ignore-eos and no --stop-id"),
        ((*RUN, "--executor", "reference", "--no-verify"), "with --executor reference"),
        ((*COMPILE, "--draft-chaining", "pre-norm"), "without drafts"),
        ((*RECORD, "--draft-chaining", "pre-norm"), "without drafts"),
        ((*COMPILE, "--plans", "prefill", "--group-steps", "3"), "without the plan decode"),
        ((*COMPILE, "--plans", "decode", "--prefill-chunk", "8"), "without the plan prefill"),
    ],
)
def test_an_option_that_changes_nothing_is_refused(
    words: tuple[str, ...], where: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    ended = CliRunner().invoke(cli, words)
    assert ended.exit_code == 2, ended.output
    assert re.search(rf"--[\w/-]+ changes nothing {re.escape(where)}\b", ended.output)
    assert re.search(r": (pass|add|run) .*, or leave --[\w/-]+ out\n$", ended.output)
    assert not list(tmp_path.iterdir())
