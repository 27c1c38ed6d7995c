"""Tables equal folders, files stay small, the front door is light, nothing points outside."""

import os
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import ascendfx
from ascendfx.ir.ops import OPS
from ascendfx.passes.rules import RULES
from tests.passes.rule_files import rules_by_file

ROOT = Path(__file__).parents[1]
FOLDERS = ("ir", "passes", "quant_passes", "codegen", "runtime", "tests", "examples", "ascendfx")
LIMIT = 400


def tracked(*suffixes: str) -> list[Path]:
    listed = subprocess.run(
        ["git", "ls-files", "-co", "--exclude-standard"],  # noqa: S607
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=True,
    ).stdout.split("\n")
    paths = [ROOT / name for name in listed if name.endswith(suffixes)]
    return [path for path in paths if path.is_file()]


def test_files_are_short() -> None:
    long = {
        str(path.relative_to(ROOT)): lines
        for path in tracked(".py", ".h", ".cpp")
        if "golden" not in path.parts and "train" not in path.parts
        if (lines := len(path.read_text(encoding="utf-8").splitlines())) > LIMIT
    }
    assert not long


def test_every_operation_file_is_in_the_table() -> None:
    stems = {path.stem for path in (ROOT / "ir" / "ops").glob("*.py")} - {"__init__"}
    assert stems == {op.mnemonic for op in OPS}


def test_every_rule_of_every_file_is_in_a_set() -> None:
    by_file = rules_by_file()
    assert all(by_file.values()), "a file without a rule"
    defined = [rule for rules in by_file.values() for rule in rules]
    assert sorted(rule.name for rule in defined) == sorted(rule.name for rule in RULES)
    assert all(rule in RULES for rule in defined)


def test_packages_have_an_init() -> None:
    for folder in FOLDERS[:5]:
        for path in (ROOT / folder).rglob("*.py"):
            assert (path.parent / "__init__.py").is_file(), path


def test_a_wheel_has_every_file_of_cpp() -> None:
    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    data: dict[str, list[str]] = settings["tool"]["setuptools"]["package-data"]
    packed = {
        path
        for package, patterns in data.items()
        for pattern in patterns
        for path in ROOT.joinpath(*package.split(".")).glob(pattern)
    }
    own = ("codegen", "runtime")
    files = {path for path in tracked(".h", ".cpp") if path.relative_to(ROOT).parts[0] in own}
    assert files == {path.resolve() for path in packed if path.suffix in (".h", ".cpp")}


@pytest.mark.parametrize("name", ["ir", "passes", "quant_passes", "codegen", "runtime"])
def test_links_lead_to_the_folders(name: str) -> None:
    link = ROOT / "ascendfx" / name
    assert link.is_symlink()
    assert link.resolve() == ROOT / name


def test_public_names_resolve() -> None:
    for name in ascendfx.__all__:
        assert getattr(ascendfx, name) is not None
    with pytest.raises(AttributeError, match="no attribute `compil`"):
        _ = ascendfx.compil  # pyright: ignore[reportAttributeAccessIssue]


def test_the_front_door_is_light() -> None:
    code = (
        "import sys; import ascendfx; "
        "known = {*sys.stdlib_module_names, 'ascendfx'}; "
        "print(*(name for name in sys.modules if name.partition('.')[0] not in known)); "
        "print(*sorted(name for name in sys.modules if name.startswith('ascendfx')))"
    )
    done = subprocess.run(
        [sys.executable, "-S", "-c", code],  # without what a virtual environment imports
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.splitlines() == ["__main__", "ascendfx ascendfx.version"]


def test_loading_a_package_needs_no_torch() -> None:
    code = (
        "import sys; import ascendfx.runtime.package.load_package; "
        "assert 'torch' not in sys.modules"
    )
    subprocess.run([sys.executable, "-c", code], check=True, cwd=ROOT)


def test_no_test_module_is_a_library() -> None:
    """What tests share has a module of its own: a change of one test breaks no other."""
    shared = re.compile(r"(?m)^\s*(from|import) tests\.(\w+\.)*test_\w+")
    paths = [path for path in tracked(".py") if "tests" in path.relative_to(ROOT).parts]
    assert not [path for path in paths if shared.search(path.read_text(encoding="utf-8"))]


def test_no_file_points_outside_the_repository() -> None:
    outside = re.compile(r"\.\./shared|/root/|/home/|/work/|(?<![\w.])/tmp/")
    found = [
        f"{path.relative_to(ROOT)}:{number}"
        for path in tracked(".py", ".toml", ".txt", ".h", ".cpp", ".md", ".ir", "Makefile", "run")
        if path != Path(__file__)
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), start=1)
        if outside.search(line)
    ]
    assert not found
