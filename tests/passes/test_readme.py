"""passes/README.md lists every pass and rule as they are."""

from tests.passes.readme_tables import README, with_tables


def test_the_tables_are_up_to_date() -> None:
    text = README.read_text(encoding="utf-8")
    assert with_tables(text) == text, "run `make tables`"
