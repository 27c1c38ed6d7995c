"""The program that shows what a rule does."""

from pathlib import Path

from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program

_EXAMPLES = Path(__file__).parents[1] / "filecheck"


def example(name: str) -> Program:
    return parse_program((_EXAMPLES / f"{name}.ir").read_text(encoding="utf-8"), file=name)
