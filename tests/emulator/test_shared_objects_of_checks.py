"""The emulator of other checks is compiled again only where it differs."""

import pytest

from ascendfx.runtime.emulator import Checks, library


def definitions(checks: Checks) -> dict[str, list[str]]:
    sources = library._emulator_sources()
    found: dict[str, list[str]] = {}
    for unit in (name for name in sources if name.endswith(".cpp")):
        texts = [sources[name] for name in library._included(unit, sources, set())]
        found[unit] = library._definitions_for(texts, checks.flags())
    return found


@pytest.mark.parametrize("checks", [Checks(races=False), Checks(poison=False)])
def test_units_that_name_no_check_are_those_of_all_checks(checks: Checks) -> None:
    usual, other = definitions(Checks()), definitions(checks)
    assert {unit for unit in usual if usual[unit] != other[unit]} == {
        "cube_poison.cpp",
        "issue.cpp",
        "shadow_global.cpp",
        "shadow_local.cpp",
    }
    (changed,) = set(checks.flags()) - set(Checks().flags())
    assert changed in other["shadow_global.cpp"]


def test_units_that_compute_are_told_whether_to() -> None:
    assert "-DEMULATOR_VALUES=0" in definitions(Checks(values=False))["vector_cast.cpp"]
