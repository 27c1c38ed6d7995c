"""Every error code stands in one README, that of the folder that raises it; one spelling each."""

import ast
import re
from collections.abc import Iterable, Iterator
from functools import cache
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("ir", "passes", "quant_passes", "codegen", "runtime")
READMES = sorted(file for layer in LAYERS for file in (ROOT / layer).rglob("README.md"))


@cache
def raised() -> dict[str, frozenset[Path]]:
    """Return every code with the files that make a `GraphError` of it, relative to the root."""
    found: dict[str, set[Path]] = {}
    for layer in LAYERS:
        for file in (ROOT / layer).rglob("*.py"):
            for code in _codes(file):
                found.setdefault(code, set()).add(file.relative_to(ROOT))
    return {code: frozenset(files) for code, files in found.items()}


def _codes(file: Path) -> Iterator[str]:
    for call in _errors(file):
        named = [each.value for each in call.keywords if each.arg == "code"]
        constants = [
            part.value
            for part in ast.walk((named or call.args)[0])
            if isinstance(part, ast.Constant) and isinstance(part.value, str)
        ]
        assert constants, f"{file}:{call.lineno}: the code is not written out"
        yield from constants


def _errors(file: Path) -> Iterator[ast.Call]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "GraphError":
            yield node


def listed_in(readme: Path) -> set[str]:
    """Return the codes of the tables whose first column is ``code``."""
    found: set[str] = set()
    inside = False
    for line in readme.read_text(encoding="utf-8").splitlines():
        inside = line.startswith("|") and (inside or line.startswith("| code |"))
        if inside and (row := re.match(r"\| ((?:`[a-z0-9-]+`(?:, )?)+) \|", line)):
            found |= set(re.findall(r"`([a-z0-9-]+)`", row[1]))
    return found


def home_of(files: Iterable[Path]) -> Path:
    """Return the README that lists a code: the nearest one with a table above all its files.

    Codes that several layers raise stand in that of the lowest layer.
    """
    tables = {readme.relative_to(ROOT) for readme in READMES if listed_in(readme)}
    above = [set(file.parents) for file in files]
    shared = {readme for readme in tables if all(readme.parent in each for each in above)}
    return max(shared, key=lambda readme: len(readme.parts), default=Path("ir/README.md"))


def test_every_code_is_listed_once_where_it_is_raised() -> None:
    listed: dict[str, list[str]] = {}
    for readme in READMES:
        for code in listed_in(readme):
            listed.setdefault(code, []).append(str(readme.relative_to(ROOT)))
    expected = {code: [str(home_of(files))] for code, files in raised().items()}
    wrong = [
        f"{code}: listed in {listed.get(code, [])}, should be in {expected.get(code, [])}"
        for code in sorted(listed.keys() | expected.keys())
        if listed.get(code) != expected.get(code)
    ]
    assert not wrong, "\n".join(wrong)


@pytest.mark.parametrize(
    ("files", "home"),
    [
        (["codegen/ascendc/launch_plan.py"], "codegen/ascendc/README.md"),
        (["codegen/ascendc/kernels/matmul.py"], "codegen/ascendc/README.md"),
        (["ir/capture/translate.py", "ir/text/parser.py"], "ir/README.md"),
        (["ir/interpret.py", "runtime/checked_limit.py"], "ir/README.md"),
    ],
)
def test_the_home_of_a_code(files: list[str], home: str) -> None:
    assert home_of(map(Path, files)) == Path(home)


def test_no_code_is_the_short_form_of_another() -> None:
    """`unknown-op` beside `unknown-operation` would be two codes for one mistake."""
    codes = sorted(raised())
    assert not [(a, b) for a, b in combinations(codes, 2) if b.startswith(a) and b[len(a)] != "-"]


def test_every_error_says_what_to_do() -> None:
    silent = [
        f"{file.relative_to(ROOT)}:{call.lineno}"
        for layer in LAYERS
        for file in (ROOT / layer).rglob("*.py")
        for call in _errors(file)
        if len(call.args) < 5 and not any(each.arg == "hint" for each in call.keywords)
    ]
    assert not silent, f"no hint: {silent}"
