"""Programs that stand beside the tests of passes."""

from functools import cache
from pathlib import Path

from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program

PROGRAMS = Path(__file__).parent / "programs"


@cache
def load(name: str) -> Program:
    path = PROGRAMS / f"{name}.ir"
    return parse_program(path.read_text(encoding="utf-8"), file=path.name)
