"""The public names of the package mean the same before and after anything else was imported."""

import subprocess
import sys

import pytest

import ascendfx

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
