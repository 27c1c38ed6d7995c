"""Error codes in the READMEs are codes that the folder raises; one spelling for one thing."""

import ast
import re
from collections.abc import Iterator
from itertools import combinations
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LAYERS = ("ir", "passes", "quant_passes", "codegen", "runtime")
READMES = sorted(file for layer in LAYERS for file in (ROOT / layer).rglob("README.md"))


def raised_below(folder: Path) -> set[str]:
    """Return the codes of every `GraphError` that is made in a folder."""
    return {code for file in folder.rglob("*.py") for code in _codes(file)}


def _codes(file: Path) -> Iterator[str]:
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"))):
        if isinstance(node, ast.Call) and getattr(node.func, "id", "") == "GraphError":
            named = [each.value for each in node.keywords if each.arg == "code"]
            for part in ast.walk((named or node.args)[0]):
                if isinstance(part, ast.Constant) and isinstance(part.value, str):
                    yield part.value


def listed_in(readme: Path) -> set[str]:
    """Return the codes of the tables whose first column is ``code``."""
    found: set[str] = set()
    inside = False
    for line in readme.read_text(encoding="utf-8").splitlines():
        inside = line.startswith("|") and (inside or line.startswith("| code |"))
        if inside and (row := re.match(r"\| ((?:`[a-z0-9-]+`(?:, )?)+) \|", line)):
            found |= set(re.findall(r"`([a-z0-9-]+)`", row[1]))
    return found


@pytest.mark.parametrize("readme", READMES, ids=lambda file: str(file.relative_to(ROOT)))
def test_every_listed_code_is_raised_there(readme: Path) -> None:
    stale = listed_in(readme) - raised_below(readme.parent)
    assert not stale, f"{readme}: nobody raises {sorted(stale)}"


def test_there_are_tables() -> None:
    assert sum(len(listed_in(readme)) for readme in READMES) > 90


def test_no_code_is_the_short_form_of_another() -> None:
    """`unknown-op` beside `unknown-operation` would be two codes for one mistake."""
    codes = sorted(set().union(*(raised_below(ROOT / layer) for layer in LAYERS)))
    assert not [(a, b) for a, b in combinations(codes, 2) if b.startswith(a) and b[len(a)] != "-"]
