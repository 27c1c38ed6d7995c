"""The numbered examples run as they stand."""

import runpy
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("[0-9]*.py"))


_LONG = ("01", "05", "06")
"""These compile for a minute or more on a cold cache."""


def run(example: Path, *arguments: Path) -> str:
    words = [sys.executable, str(example), *map(str, arguments)]
    done = subprocess.run(words, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert not example.stem.startswith(_LONG) or done.stderr, "silent while it compiles"
    return done.stdout


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs_and_runs_again(
    example: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    first = run(example, tmp_path)
    assert first
    if example.stem.startswith("05"):  # what is read again is a file: no process of its own
        monkeypatch.setattr(sys, "argv", [str(example), str(tmp_path)])
        runpy.run_path(str(example), run_name="__main__")
        assert capsys.readouterr().out == first
    else:
        assert run(example, tmp_path) == first
    if example.stem.startswith("01"):
        assert "the loaded package says the same: True" in first
    if example.stem.startswith("02"):
        assert "derive-incremental-form" in first
        assert "[blocks, 128, 64]" in first
        assert "[blocks, 128, 1, 16]" in first or "[blocks, 128, 16]" in first
    if example.stem.startswith("03"):
        assert "= silu %0 : f32[tokens, 8]" in first
        assert "{'recognise-silu': {'recognised': 1}}" in first
    if example.stem.startswith("06"):
        assert "one engine says the same: True" in first
        assert "1,920 per token, 320 of drafts" in first
    if example.stem.startswith("05"):
        assert first.startswith("as recorded: True\n")
    if example.stem.startswith("04"):
        assert "{'open-swiglu': 3}" in first
        assert "error[rule-not-proved]: exchange-swiglu: the sides differ for k=2" in first
        assert "the difference is -gate_0*up_0/" in first


def test_an_example_without_a_folder_takes_a_temporary_one() -> None:
    # All of them have the same line for it, so that one of them, the fastest, is run.
    for example in EXAMPLES:
        text = example.read_text(encoding="utf-8")
        assert "sys.argv[1]" not in text or "len(sys.argv) > 1 else Path(scratch)" in text, example
    (dumps,) = (each for each in EXAMPLES if each.stem.startswith("02"))
    assert "derive-incremental-form" in run(dumps)


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
