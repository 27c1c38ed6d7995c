"""Small models as they were captured, and raised."""

from functools import cache
from pathlib import Path

from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import RAISE

CAPTURED = Path(__file__).parent / "programs" / "captured"


@cache
def captured(name: str) -> Program:
    path = CAPTURED / f"{name}.ir"
    return parse_program(path.read_text(encoding="utf-8"), file=path.name)


@cache
def raised(name: str) -> Program:
    return run_pipeline(captured(name), RAISE)[0]
