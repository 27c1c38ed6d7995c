"""Write a rewrite rule of your own, have it proved and compile with it; a wrong one is refused.

python examples/04_user_rule.py [FOLDER]
"""

import dataclasses
import json
import sys
import tempfile
from pathlib import Path
from typing import Any

import ascendfx
from ascendfx import GraphError, rules
from ascendfx.ir.graph import GraphBuilder, Value
from ascendfx.ir.ops import Multiply, Silu, Swiglu
from ascendfx.ir.text.parser import parse_program

EXAMPLE = parse_program(
    """\
graph @example {
  %0 = input "gate" : f32[tokens, 8]
  %1 = input "up" : f32[tokens, 8]
  %2 = swiglu %0, %1 : f32[tokens, 8]
  return %2
}
"""
)


def gated(b: rules.SideBuilder, _holes: Any, gate: Value, up: Value) -> Value:
    """Return what is looked for."""
    return b.add(Swiglu(), gate, up)


def opened(b: GraphBuilder, _holes: Any, gate: Value, up: Value) -> Value:
    """Return what takes its place."""
    return b.add(Multiply(), b.add(Silu(), gate), up)


def exchanged(b: GraphBuilder, _holes: Any, gate: Value, up: Value) -> Value:
    """Return what somebody in a hurry writes."""
    return b.add(Multiply(), b.add(Silu(), up), gate)


RULE = rules.Rule(
    name="open-swiglu",
    identity="swiglu(gate, up)  =  silu(gate) · up",
    source="Shazeer, arXiv 2002.05202, eq. 6",
    operands={"gate": "* k", "up": "* k"},  # any leading axes, then one axis of k elements
    spellings=(rules.Spelling(gated),),
    rhs=opened,
    fidelity=rules.Fidelity.REAL,
)


def main(folder: Path) -> None:
    """Register a right rule and compile with it, then try a wrong one."""
    rules.register(RULE, examples={"": EXAMPLE})
    # Applied where the operations are raised, before the caches are placed.
    ascendfx.compile(ascendfx.bundled_model(), executor="reference", rules=(RULE,), dump_dir=folder)
    index = json.loads((folder / "serving" / "index.json").read_text(encoding="utf-8"))
    print(*(each["statistics"] for each in index if RULE.name in each["statistics"]))

    wrong = dataclasses.replace(RULE, name="exchange-swiglu", rhs=exchanged)
    try:
        rules.register(wrong, examples={"": EXAMPLE})
    except GraphError as error:
        print(error)


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch:
        main(Path(sys.argv[1]) if len(sys.argv) > 1 else Path(scratch))
