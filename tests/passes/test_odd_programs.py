"""Every pass over programs that are whole, and nothing like a model: an answer or one error."""

from contextlib import suppress
from itertools import product

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.fuse_mtp import FuseMtp
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.registry import PASSES

_INPUT = '  %0 = input "x" : f32[rows, 16]\n'
_PROGRAMS = {
    "no results": _INPUT + "  return\n",
    "nothing at all": "  return\n",
    "a choice alone": _INPUT + "  %1 = argmax %0 : i32[rows]\n  return %1\n",
    "an input, thrice": _INPUT + "  return %0, %0, %0\n",
}
"""By what is odd."""


@pytest.mark.parametrize(("what", "name"), [*product(_PROGRAMS, [*PASSES, FuseMtp.name])])
def test_a_pass_over_an_odd_program(what: str, name: str) -> None:
    program = parse_program(f"graph @main {{\n{_PROGRAMS[what]}}}\n")
    each: ProgramPass = PASSES[name] if name in PASSES else FuseMtp(())
    with suppress(GraphError):
        assert isinstance(each.run(program).program, Program)
