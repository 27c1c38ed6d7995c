"""The READMEs of passes list every pass, rule and file as they are."""

from pathlib import Path

import pytest

from ascendfx.passes.check_rule import CHECKS
from tests.passes.readme_tables import TABLES, with_table

_ROOT = Path(__file__).parents[2]
_PASSES = _ROOT / "passes"
_FOLDERS = sorted({path.parent for path in _PASSES.rglob("*.py")} - {_PASSES / "rules"})


@pytest.mark.parametrize("readme", TABLES, ids=lambda path: str(path.relative_to(_ROOT)))
def test_the_tables_are_up_to_date(readme: Path) -> None:
    assert with_table(readme) == readme.read_text(encoding="utf-8"), "run `make tables`"


def test_every_check_of_a_rule_is_explained() -> None:
    text = (_PASSES / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| check | how |") :].split("\n\n")[0]
    explained = {line[2:].partition(" |")[0].partition(",")[0] for line in table.split("\n")[2:]}
    assert explained == {check.name for check in CHECKS}


@pytest.mark.parametrize("folder", _FOLDERS, ids=lambda path: str(path.relative_to(_ROOT)))
def test_every_file_is_listed(folder: Path) -> None:
    text = (folder / "README.md").read_text(encoding="utf-8")
    files = {path.name for path in folder.glob("*.py")} - {"__init__.py"}
    assert {name for name in files if f"`{name}`" not in text} == set()
