"""A case or a dump that somebody mailed runs no code of theirs, unless the user says so."""

import json
import os
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.dumps.planted_dump import dump_with

_ROOT = Path(__file__).parents[2]
_OWN = """
from pathlib import Path
from tests.dumps.planted import operands_ignored
Path("imported").touch()
class Own(operands_ignored): pass
"""


def command(folder: Path, *words: str | Path) -> subprocess.CompletedProcess[str]:
    """Run the command line in ``folder``, whose modules are on the path."""
    return subprocess.run(
        [sys.executable, "-m", "ascendfx", *map(str, words)],
        env={**os.environ, "PYTHONPATH": f"{_ROOT}{os.pathsep}{folder}"},
        capture_output=True,
        text=True,
        check=False,
        cwd=folder,
    )


@pytest.fixture(scope="module")
def dump(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a dump of a compilation with a mistake, by a pass of a module that is not there."""
    folder = tmp_path_factory.mktemp("mailed") / "dump"
    dump_with("operands_ignored", folder)
    for index in folder.glob("*/index.json"):
        text = index.read_text(encoding="utf-8")
        index.write_text(text.replace("tests.dumps.planted:operands_ignored", "own_passes:Own"))
    return folder


@pytest.fixture
def case(dump: Path, tmp_path: Path) -> Path:
    file = tmp_path / "case.json"
    assert command(tmp_path, "reduce", dump, "-o", file, "--random", "0").returncode == 0
    return file


def test_a_command_in_a_file_is_not_run(dump: Path, case: Path, tmp_path: Path) -> None:
    evil = {"class": "subprocess:getoutput", "fields": {"cmd": f"touch {tmp_path}/ran"}}
    stored = json.loads(case.read_text(encoding="utf-8"))
    stored["pass"] |= {"code": "ascendfx.passes.simplify:Simplify", "parameters": {"x": evil}}
    case.write_text(json.dumps(stored), encoding="utf-8")
    for allowed in ((), ("--allow-code",)):
        done = command(tmp_path, "replay", case, *allowed)
        assert done.returncode == 1
        assert (
            "not run; `subprocess:getoutput` cannot be imported here: it is no class" in done.stdout
        )
    dump = Path(shutil.copytree(dump, tmp_path / "evil"))
    for index in dump.glob("*/index.json"):
        plain: Any = json.loads(index.read_text(encoding="utf-8"))
        assert "parameters" in json.dumps(plain)
        text = json.dumps(plain).replace(
            '"parameters": {}', f'"parameters": {json.dumps({"x": evil})}'
        )
        index.write_text(text, encoding="utf-8")
    for words in (("bisect",), ("reduce", "-o", "again.json"), ("report", "-o", "page.html")):
        random = () if words[0] == "report" else ("--random", "0")
        command(tmp_path, *words, dump, *random)
    assert not (tmp_path / "ran").exists()


def test_a_module_of_others_is_imported_with_allow_code_only(
    dump: Path, case: Path, tmp_path: Path
) -> None:
    stored = json.loads(case.read_text(encoding="utf-8"))
    stored["pass"]["code"] = "own_passes:Own"
    case.write_text(json.dumps(stored), encoding="utf-8")
    (tmp_path / "own_passes.py").write_text(_OWN, encoding="utf-8")
    done = command(tmp_path, "replay", case)
    assert "not run; `own_passes:Own` cannot be imported here: `own_passes` is code" in done.stdout
    assert "repeat the command with --allow-code" in done.stdout
    done = command(tmp_path, "reduce", dump, "-o", "x.json", "--random", "0")
    assert "cannot be run again: `own_passes:Own` cannot be imported here" in done.stderr
    assert not (tmp_path / "imported").exists()
    done = command(tmp_path, "replay", case, "--allow-code")
    assert (tmp_path / "imported").exists()
    assert "pass of this installation: no difference" in done.stdout, done.stdout + done.stderr
