"""The READMEs of passes list every pass and rule as they are."""

from pathlib import Path

import pytest

from ascendfx.passes.check_rule import CHECKS
from tests.passes.readme_tables import TABLES, with_table

_ROOT = Path(__file__).parents[2]
_PASSES = _ROOT / "passes"


@pytest.mark.parametrize("readme", TABLES, ids=lambda path: str(path.relative_to(_ROOT)))
def test_the_tables_are_up_to_date(readme: Path) -> None:
    assert with_table(readme) == readme.read_text(encoding="utf-8"), "run `make tables`"


def test_every_check_of_a_rule_is_explained() -> None:
    text = (_PASSES / "README.md").read_text(encoding="utf-8")
    table = text[text.index("| check | how |") :].split("\n\n")[0]
    explained = {line[2:].partition(" |")[0].partition(",")[0] for line in table.split("\n")[2:]}
    assert explained == {check.name for check in CHECKS}
