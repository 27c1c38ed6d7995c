"""A README says of every file of its folder what it is for, and of no other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
GENERATED = {ROOT / "ir" / "ops", ROOT / "passes" / "rules"}
"""Their files are listed by what they define: operations in ir/README.md, rules by name."""
FOLDERS = sorted(
    {
        path.parent
        for top in ("ir", "passes", "codegen", "runtime")
        for path in (ROOT / top).rglob("*.py")
        if path.name != "__init__.py"
    }
    - GENERATED
)
NAMED = re.compile(r"`(\w+\.py)`")


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_every_file_is_listed(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    assert files - set(NAMED.findall(text)) == set()


@pytest.mark.parametrize("folder", FOLDERS, ids=lambda path: str(path.relative_to(ROOT)))
def test_tables_list_files_that_there_are(folder: Path) -> None:
    """A table of files has `file` in its head; other tables name what they like."""
    text = (folder / "README.md").read_text(encoding="utf-8")
    tables = [each for each in text.split("\n\n") if re.match(r"\|[^\n]*\bfile\b", each)]
    named = {name for table in tables for name in NAMED.findall(table)}
    assert named - {path.name for path in folder.glob("*.py")} == set()
