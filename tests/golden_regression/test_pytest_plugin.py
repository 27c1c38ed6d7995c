"""The fixture `golden_compile` in a test run of its own."""

import json
import os
import subprocess
import sys
import tomllib
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from ascendfx.runtime.golden.pytest_plugin import (
    _subject,  # pyright: ignore[reportPrivateUsage]
)

_TEST = """
import ascendfx
from tests.golden_regression.passes_of_a_user import {name}

def test_model(golden_compile):
    compiled = golden_compile(
        ascendfx.bundled_model(), "tiny", max_batch=2, max_context=256, passes={passes}
    )
    assert set(compiled.plans) == {{"decode", "prefill"}}
"""
_ROOT = Path(__file__).parents[2]


def environment(**more: str) -> dict[str, str]:
    """Return this environment without what its owner tells pytest."""
    return {k: v for k, v in os.environ.items() if not k.startswith(("PYTEST", "PY_COLORS"))} | more


_RUNS = """
import json, sys, pytest
for line in sys.stdin:
    sys.modules.pop("test_mine", None)
    code = pytest.main(json.loads(line))
    print(f"\\nended with {int(code)}", flush=True)
"""
_ENDED = "ended with "


@contextmanager
def runs(folder: Path) -> Generator[Callable[..., tuple[int, str]]]:
    """Run pytest as often as wanted in one process: most of the time of a run is its imports."""
    options = ["-p", "ascendfx.testing", "-p", "no:cacheprovider", "-rP"]
    options += ["-o", f"pythonpath={_ROOT}", f"--rootdir={folder}"]
    with subprocess.Popen(
        [sys.executable, "-c", _RUNS],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        cwd=folder,
        env=environment(),
    ) as process:
        assert process.stdin
        assert process.stdout
        given, told = process.stdin, process.stdout

        def run(*arguments: str) -> tuple[int, str]:
            given.write(json.dumps([*options, *arguments, str(folder)]) + "\n")
            given.flush()
            text = ""
            for line in told:
                if line.startswith(_ENDED):
                    return int(line.removeprefix(_ENDED)), text
                text += line
            raise AssertionError(text)

        yield run
        given.close()


def run(folder: Path, *arguments: str) -> tuple[int, str]:
    with runs(folder) as run_in_it:
        return run_in_it(*arguments)


@pytest.fixture
def run_again(tmp_path: Path) -> Iterator[Callable[..., tuple[int, str]]]:
    with runs(tmp_path) as run_in_it:
        yield run_in_it


def test_record_compare_fail_rewrite(
    tmp_path: Path, run_again: Callable[..., tuple[int, str]]
) -> None:
    file = tmp_path / "test_mine.py"
    golden = tmp_path / "ascendfx_golden" / "tiny"
    file.write_text(_TEST.format(name="ExchangeSummands", passes="()"), encoding="utf-8")
    code, told = run_again()
    assert code == 1
    assert f"{golden} is not recorded; record it with --update-ascendfx-golden" in told
    assert not golden.exists()
    code, told = run_again("--update-ascendfx-golden")
    assert code == 0, told
    assert (golden / "golden.json").is_file()
    code, told = run_again()
    assert code == 0, told
    file.write_text(_TEST.format(name="DoubleGates", passes="(DoubleGates(),)"), encoding="utf-8")
    code, told = run_again()
    assert code == 1
    assert "pass: pass `double-gates` (serving/" in told
    assert "value: @" in told
    assert "error against float64: " in told
    assert told.index("pass: pass") < told.index("output: the logits of decode moved by ")
    assert "if all of that is meant, rewrite it with --update-ascendfx-golden" in told
    code, told = run_again("--update-ascendfx-golden")
    assert code == 1
    assert "error[golden-not-true]" in told
    swapped = _TEST.format(name="ExchangeSummands", passes="(ExchangeSummands(),)")
    file.write_text(swapped, encoding="utf-8")
    code, told = run_again("--update-ascendfx-golden")
    assert code == 0, told
    assert f"{golden} is rewritten:" in told
    assert "outputs: rounding explains every difference" in told
    assert run_again()[0] == 0


def test_a_name_stays_in_its_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # What who runs this suite tells pytest is not meant for the pytest that is run here.
    monkeypatch.setenv("PYTEST_ADDOPTS", "--collect-only")
    monkeypatch.setenv("PYTEST_PLUGINS", "no_such_plugin")
    text = "def test_it(golden_compile):\n    golden_compile(None, '../other')\n"
    (tmp_path / "test_mine.py").write_text(text, encoding="utf-8")
    code, told = run(tmp_path)
    assert code == 1
    assert "'../other' is no name of a folder" in told


def test_the_fixture_takes_every_limit() -> None:
    given = {"max_batch": 2, "draft_tokens": 2, "draft_tree": (2, 1), "group_steps": 3}
    subject = _subject("model", None, 0, {**given, "draft_chaining": "pre-norm"})
    assert {name: getattr(subject.limits, name) for name in given} == given
    assert subject.draft_chaining == "pre-norm"


@pytest.mark.parametrize("module", ["ascendfx.testing"])
def test_the_plugin_costs_nothing_before_it_is_used(module: str) -> None:
    code = (
        f"import sys; import {module}; "
        "heavy = {'torch', 'numpy', 'sympy', 'networkx', 'transformers'} & set(sys.modules); "
        "assert not heavy, heavy"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=_ROOT)


@pytest.mark.parametrize("asked", [(), ("-p", "ascendfx.testing")])
def test_an_installation_has_the_plugin_and_asking_for_it_does_no_harm(
    tmp_path: Path, asked: tuple[str, ...]
) -> None:
    # The entry point of pyproject.toml as pip would write it, wherever this clone is installed.
    scripts = tomllib.loads((_ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]
    ((name, module),) = scripts["entry-points"]["pytest11"].items()
    installed = tmp_path / "site" / "installed-1.dist-info"
    installed.mkdir(parents=True)
    (installed / "METADATA").write_text("Metadata-Version: 2.1\nName: installed\nVersion: 1\n")
    (installed / "entry_points.txt").write_text(f"[pytest11]\n{name} = {module}\n")
    done = subprocess.run(
        [sys.executable, "-m", "pytest", *asked, "--fixtures", "-q", f"--rootdir={tmp_path}"],
        capture_output=True,
        text=True,
        check=False,
        cwd=tmp_path,
        env=environment(PYTHONPATH=f"{installed.parent}{os.pathsep}{_ROOT}"),
    )
    assert "golden_compile -- " in done.stdout, done.stdout + done.stderr
