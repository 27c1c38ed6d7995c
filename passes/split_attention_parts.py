"""Let attention sum its scores over the parts that query and keys are joined from."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.program import Program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import SPLITTING


@dataclass(frozen=True, slots=True)
class SplitAttentionParts(ProgramPass):
    """Splits the contraction of attention where query and keys are joined from equal parts.

    A part of the keys that all heads share can then be stored once. Expects `HoistTransposes`, so
    that the joins are next to the attention.
    """

    name: ClassVar[str] = "split-attention-parts"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What is applied, so that a mistake can be blamed on one rule."""
        return SPLITTING

    def run(self, program: Program) -> PassResult:
        """Apply the splitting rules to a fixed point."""
        return ApplyRules(self.rules).run(program)
