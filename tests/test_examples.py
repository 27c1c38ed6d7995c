"""The numbered examples run as they stand."""

import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = sorted((Path(__file__).parents[1] / "examples").glob("[0-9]*.py"))


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(example: Path, tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, str(example), str(tmp_path)], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert done.stdout
    if example.stem.startswith("01"):
        assert "the loaded package says the same: True" in done.stdout
    if example.stem.startswith("02"):
        assert "derive-incremental-form" in done.stdout
        assert "[blocks, 128, 64]" in done.stdout
        assert "[blocks, 128, 1, 16]" in done.stdout or "[blocks, 128, 16]" in done.stdout
    if example.stem.startswith("03"):
        assert "= silu %0 : f32[tokens, 8]" in done.stdout
        assert "{'recognise-silu': {'recognised': 1}}" in done.stdout
    if example.stem.startswith("04"):
        assert "{'open-swiglu': 3}" in done.stdout
        assert "error[rule-not-proved]: exchange-swiglu: the sides differ for k=2" in done.stdout
        assert "the difference is -gate_0*up_0/" in done.stdout


def test_there_are_examples() -> None:
    assert len(EXAMPLES) >= 4
