"""Public names mean the same before and after anything else was imported, and are all told."""

import dataclasses
import re
import subprocess
import sys
from pathlib import Path

import pytest

import ascendfx
from ascendfx import rules, testing

README = Path(ascendfx.__file__).parent / "README.md"

CODE = """
import ascendfx
names = [name for name in ascendfx.__all__ if name != "__version__"]
first = {name: getattr(ascendfx, name) for name in names}
import ascendfx.runtime.cli.main
for name in names:
    assert callable(first[name]), name
    assert getattr(ascendfx, name) is first[name], name
"""


def test_public_names_stay_what_they_are_when_their_modules_were_imported() -> None:
    done = subprocess.run([sys.executable, "-c", CODE], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def test_an_unknown_name_is_an_attribute_error() -> None:
    with pytest.raises(AttributeError, match="has no attribute `decompile`"):
        _ = ascendfx.decompile  # pyright: ignore[reportAttributeAccessIssue]


@pytest.mark.parametrize("module", [ascendfx, rules, testing], ids=lambda each: each.__name__)
def test_every_public_name_is_in_the_table(module: object) -> None:
    text = README.read_text(encoding="utf-8")
    table = text[text.index("## Public names") :]
    told = {
        word
        for line in table.splitlines()
        if line.startswith("|")
        for quoted in re.findall(r"`([^`]+)`", line)
        for word in re.findall(r"\w+", quoted)
    }
    names = set(module.__all__) - {"__version__"}  # pyright: ignore[reportAttributeAccessIssue]
    assert names <= told, names - told


def test_every_file_of_the_package_is_in_its_readme() -> None:
    text = README.read_text(encoding="utf-8")
    files = {path.name for path in README.parent.glob("*.py")}
    assert {name for name in files if f"| `{name}`" not in text} == set()


def test_the_docstring_of_rules_writes_a_rule_as_the_class_takes_it() -> None:
    text = (rules.__doc__ or "").partition("rules.Rule(")[2].partition("\n... )")[0]
    named = set(re.findall(r"^\.\.\. +(\w+)=", text, re.MULTILINE))
    fields = dataclasses.fields(rules.Rule)
    required = {
        each.name
        for each in fields
        if each.default is dataclasses.MISSING and each.default_factory is dataclasses.MISSING
    }
    assert required <= named <= {each.name for each in fields}
