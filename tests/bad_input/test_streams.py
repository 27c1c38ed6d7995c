"""Standard streams that are closed or full, and interruptions at any time: a line, no traceback."""

import os
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path

import pytest

_START = "from ascendfx.runtime.cli.main import main; main()"
_PROGRAM = 'graph @main {\n  %0 = input "x" : f32[rows, 4]\n  return %0\n}\n'


def _started(
    redirection: str, *words: object, before: str = ""
) -> subprocess.CompletedProcess[str]:
    """Run the command line behind a redirection of the shell."""
    environment: Mapping[str, str] = {**os.environ, "CODE": f"{before}{_START}"}
    return subprocess.run(
        [
            "/bin/sh",
            "-c",
            f'exec "$0" -c "$CODE" "$@" {redirection}',
            sys.executable,
            *map(str, words),
        ],
        capture_output=True,
        text=True,
        check=False,
        env=environment,
    )


@pytest.fixture
def program(tmp_path: Path) -> Path:
    file = tmp_path / "program.ir"
    file.write_text(_PROGRAM, encoding="utf-8")
    return file


@pytest.mark.parametrize("words", [("opt", "--list"), ("--version",), ("compile", "--help")])
def test_a_full_device_is_one_line(words: tuple[str, ...]) -> None:
    done = _started(">/dev/full", *words)
    assert done.returncode == 1
    assert "error[not-writable]: standard output cannot be written: No space left" in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception ignored" not in done.stderr


def test_the_end_of_a_pipe_is_no_error(program: Path) -> None:
    done = _started("| head -c 1", "opt", program)
    assert (done.returncode, done.stdout, done.stderr) == (0, "g", "")


def test_commands_work_without_standard_error(
    program: Path, tmp_path: Path, original: Path
) -> None:
    assert _started("2>&-", "opt", program).stdout == _PROGRAM
    limits = ("--max-batch", 2, "--max-context", 128, "--prefill-chunk", 8)
    done = _started("2>&-", "compile", original, "-o", tmp_path / "pkg", *limits)
    assert done.returncode == 0
    assert "decode: " in done.stdout
    assert (tmp_path / "pkg" / "package.json").is_file()
    assert _started("2>&-", "opt", tmp_path / "none.ir").returncode == 2
    assert _started("2>&-", "bisect", tmp_path / "none").returncode == 1


@pytest.mark.parametrize("stream", [">&-", ">&- 2>&-", "</dev/null >&- 2>&-"])
def test_commands_work_without_standard_output(stream: str, program: Path) -> None:
    done = _started(stream, "opt", program)
    assert (done.returncode, done.stderr) == (0, "")


@pytest.mark.parametrize("module", ["click", "numpy", "ascendfx.runtime.cli.run"])
def test_an_interruption_of_imports_is_one_line(module: str) -> None:
    code = (
        "import sys\n"
        "class Stop:\n"
        "    def find_spec(self, name, path=None, target=None):\n"
        f"        if name == {module!r}: raise KeyboardInterrupt\n"
        "sys.meta_path.insert(0, Stop())\n"
    )
    done = _started("", "opt", "--list", before=code)
    assert (done.returncode, done.stdout, done.stderr) == (1, "", "Aborted!\n")


def test_too_little_memory_is_one_line(program: Path) -> None:
    code = (
        "from ascendfx.runtime.cli import opt\n"
        "def fail(*_, **__): raise MemoryError('Unable to allocate 8 TiB')\n"
        "opt.parse_program = fail\n"
    )
    done = _started("", "opt", program, before=code)
    assert done.returncode == 1
    assert done.stderr.startswith(
        "error[out-of-memory]: this computer has not enough memory: Unable to allocate 8 TiB"
    )
    assert "Traceback" not in done.stderr


def test_other_errors_of_the_system_stay_visible(program: Path) -> None:
    code = (
        "from ascendfx.runtime.cli import opt\n"
        "def fail(*_, **__): raise FileNotFoundError(2, 'No such file', 'x')\n"
        "opt.parse_program = fail\n"
    )
    assert "Traceback" in _started("", "opt", program, before=code).stderr


@pytest.mark.parametrize("encoding", ["latin-1", "gbk", "utf-8"])
def test_text_that_the_output_has_no_letters_for_is_not_lost(
    encoding: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PYTHONIOENCODING", encoding)
    text = "\u6a21\U0001f4a5\udcff"  # Chinese, a picture, a byte of a name that is no text
    code = (
        "import click; from ascendfx.runtime.cli import commands\n"
        f"commands.cli = click.command()(lambda: click.echo({text!a}))\n"
    )
    done = _started("", before=code)
    assert done.returncode == 0, done.stderr
    shown = {"utf-8": "\u6a21\U0001f4a5\\udcff"}.get(encoding)
    assert done.stdout.rstrip("\n") == shown or "\\U0001f4a5\\udcff" in done.stdout


_BUILDS = """
import pathlib, sys
from ascendfx.runtime.cli import commands
from ascendfx.runtime.emulator.toolchain import run_compiler
def build():
    here = pathlib.Path(sys.argv[1])
    try:
        run_compiler("/bin/sh", ["-c", sys.argv[2]], here, "a kernel")
    finally:
        (here / "cleaned").touch()
commands.cli = build
"""


_COMPILER = "(sleep 321; touch survived) & echo $! > child; wait"


def test_a_termination_ends_compilers_and_cleans_up(tmp_path: Path) -> None:
    """Only the command is told, as by `kill`; a compiler has children of its own."""
    process = subprocess.Popen(
        [sys.executable, "-c", _BUILDS + _START, str(tmp_path), _COMPILER], start_new_session=True
    )
    while not (tmp_path / "child").is_file() or not (tmp_path / "child").read_text():
        assert process.poll() is None
        time.sleep(0.05)
    child = int((tmp_path / "child").read_text())
    process.terminate()
    assert process.wait() == 143
    assert (tmp_path / "cleaned").is_file()
    while _lives(child):
        time.sleep(0.05)
    assert not (tmp_path / "survived").exists()


def _lives(process: int) -> bool:
    try:
        state = Path(f"/proc/{process}/stat").read_text(encoding="utf-8")
    except OSError:
        return False
    return state.rpartition(")")[2].split()[0] != "Z"
