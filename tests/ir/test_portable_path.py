"""Names of source files hold in every clone and virtual environment, or are none."""

import sysconfig
from pathlib import Path

import numpy
import pytest

import ascendfx.ir.location
from ascendfx.ir.location import Location
from ascendfx.ir.portable_path import local_file, portable_name
from ascendfx.ir.program import Program
from ascendfx.ir.text.located import parse_located, print_located
from ascendfx.ir.text.parser import parse_program

_LIBRARY = str(Path(sysconfig.get_path("stdlib"), "functools.py"))


@pytest.mark.parametrize(
    ("file", "name"),
    [
        (str(numpy.__file__), "numpy/__init__.py"),
        (str(ascendfx.ir.location.__file__), "ascendfx/ir/location.py"),
        (_LIBRARY, "functools.py"),
    ],
)
def test_files_of_packages_have_a_name_that_leads_back(file: str, name: str) -> None:
    assert portable_name(file) == name
    assert local_file(name) == file
    assert str(Location(file, 3, "layers.0").portable()) == f"{name}:3 in layers.0"


@pytest.mark.parametrize("file", ["/srv/me/model.py", "<unknown>", "<string>", "model.py", ""])
def test_other_files_have_none(file: str) -> None:
    assert portable_name(file) is None
    assert Location(file, 3).portable() == Location(file, 3)


def test_what_is_not_installed_is_not_found() -> None:
    assert local_file("transformers/models/no_such_model.py") is None
    assert local_file("ascendfx/no_such_file.py") is None


def test_a_text_for_other_machines_names_no_place_of_this_one() -> None:
    source = 'graph @main {\n  %0 = input "x" : f32[4]\n  %1 = relu %0 : f32[4]\n  return %1\n}'
    program = parse_program(source, file=_LIBRARY)
    assert _files(parse_located(print_located(program))) == {_LIBRARY}
    portable = print_located(program, portable=True)
    assert _LIBRARY not in portable
    assert _files(parse_located(portable)) == {"functools.py"}


def _files(program: Program) -> set[str]:
    return {node.location.file for node in program.main.nodes}
