"""A rule of a user goes through check, compilation, verification and dump."""

from pathlib import Path
from typing import Any

import pytest

import ascendfx
from ascendfx import rules
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Multiply, Silu, Swiglu
from ascendfx.ir.text.parser import parse_program
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.dumps.read_dump import read_dump

_EXAMPLE = """graph @g {
  %0 = input "gate" : f32[2, 3]
  %1 = input "up" : f32[2, 3]
  %2 = swiglu %0, %1 : f32[2, 3]
  return %2
}
"""


def _lhs(b: rules.SideBuilder, _h: Any, gate: Value, up: Value) -> Value:
    return b.add(Swiglu(), gate, up)


def _rhs(b: GraphBuilder, _h: Any, gate: Value, up: Value) -> Value:
    return b.add(Multiply(), b.add(Silu(), gate), up)


OPEN_SWIGLU = rules.Rule(
    name="open-swiglu",
    identity="swiglu(g, u)  =  silu(g) · u",
    source="definition",
    operands={"gate": "* k", "up": "* k"},
    spellings=(rules.Spelling(_lhs),),
    rhs=_rhs,
    fidelity=rules.Fidelity.REAL,
)


def test_a_registered_rule_is_applied_where_operations_are_raised(tmp_path: Path) -> None:
    model, traces = ascendfx.bundled_model(), trace_folder_of(None)
    with pytest.raises(GraphError, match=r"error\[rule-not-registered\]"):
        compile_model(model, rules=(OPEN_SWIGLU,), trace_folder=traces)
    rules.register(OPEN_SWIGLU, examples={"": parse_program(_EXAMPLE)})
    compile_model(
        model,
        rules=(OPEN_SWIGLU,),
        plans=("decode",),
        verify="each-pass",
        dump_dir=tmp_path,
        trace_folder=traces,
    )
    serving = read_dump(tmp_path).stages[0]
    names = [each.name for each in serving.passes]
    (mine,) = (each for each in serving.passes if each.name == "apply-rules")
    assert mine.statistics == {"open-swiglu": 3}
    assert mine.form.parameters["rules"][0]["rule"].endswith("test_compile_with_rules:OPEN_SWIGLU")
    assert names.index("share-key-heads") < mine.number - 1 < names.index("derive-incremental-form")
