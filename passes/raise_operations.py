"""Recognise the operations of the field in captured primitives."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.program import Program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import RAISING, RESPELLING


@dataclass(frozen=True, slots=True)
class RaiseOperations(ProgramPass):
    """Turns primitives into rms_norm, rotary, attention, routing, expert dispatch and swiglu.

    Expects `Simplify`. What nearly fits stays as it is and is remarked with the line of the model.
    """

    name: ClassVar[str] = "raise-operations"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What is applied, so that a mistake can be blamed on one rule."""
        return RAISING + RESPELLING

    def run(self, program: Program) -> PassResult:
        """Apply the raising rules to a fixed point."""
        return ApplyRules(self.rules).run(program)
