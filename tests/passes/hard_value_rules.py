"""Rules that are wrong at few values only."""

from typing import Any

from ascendfx import rules
from ascendfx.ir.ops import (
    Constant,
)
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.check_rule import problems_of_rule
from tests.passes.small_rules import Operands, rule

CASES, EXHAUSTIVE = {"proof": rules.Proof.CASES}, {"proof": rules.Proof.EXHAUSTIVE}
BITWISE = {"fidelity": rules.Fidelity.BITWISE}
ONE: Operands = {"x": "f32: * k"}
TWO: Operands = {"x": "f32: * k", "y": "f32: * k"}


def c(b: Any, value: float, dtype: DType = DType.F32) -> Any:
    return b.add(Constant(value, dtype))


def problems(name: str, lhs: Any, rhs: Any, operands: Operands, **options: Any) -> str:
    return "\n".join(problems_of_rule(rule(name, lhs, rhs, operands, **options), {}))
