"""MLA absorption: the decode step attends over the latent cache itself."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.program import Program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import ABSORBING


@dataclass(frozen=True, slots=True)
class AbsorbProjections(ProgramPass):
    """Moves projections of the key side to the query and to the result.

    A decode step then reads each cached latent once and never expands it: per row, head and cached
    token the work falls from ``n * c`` multiplications to none. Long prefill chunks keep the
    expanded form, where the shorter inner products win.

    Source: DeepSeek-V2, arXiv 2405.04434, section 2.1.2.
    """

    name: ClassVar[str] = "absorb-projections"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    @property
    def rules(self) -> tuple[Rule, ...]:
        """What is applied, so that a mistake can be blamed on one rule."""
        return ABSORBING

    def run(self, program: Program) -> PassResult:
        """Apply the absorption rules to a fixed point."""
        return ApplyRules(self.rules).run(program)
