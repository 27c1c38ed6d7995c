"""MLA absorption: the decode step attends over the latent cache itself."""

from dataclasses import dataclass
from typing import ClassVar

from ascendfx.ir.program import Program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules.absorb_key_projection import (
    ABSORB_KEY_PROJECTION,
    ABSORB_KEY_PROJECTION_OF_TWO_PARTS,
)
from ascendfx.passes.rules.absorb_value_projection import (
    ABSORB_VALUE_PROJECTION,
    ABSORB_VALUE_PROJECTION_OF_TWO_PARTS,
)
from ascendfx.passes.rules.reshape_head_projection import RULE as RESHAPE_HEAD_PROJECTION
from ascendfx.passes.rules.slice_head_projection import RULE as SLICE_HEAD_PROJECTION
from ascendfx.passes.rules.split_projection_into_heads import RULE as SPLIT_PROJECTION_INTO_HEADS

RULES: tuple[Rule, ...] = (
    SPLIT_PROJECTION_INTO_HEADS,
    SLICE_HEAD_PROJECTION,
    RESHAPE_HEAD_PROJECTION,
    ABSORB_KEY_PROJECTION,
    ABSORB_KEY_PROJECTION_OF_TWO_PARTS,
    ABSORB_VALUE_PROJECTION,
    ABSORB_VALUE_PROJECTION_OF_TWO_PARTS,
)


@dataclass(frozen=True, slots=True)
class AbsorbProjections(ProgramPass):
    """Moves projections of the key side to the query and to the result.

    A decode step then reads each cached latent once and never expands it: per row, head and cached
    token the work falls from ``n * c`` multiplications to none. Long prefill chunks keep the
    expanded form, where the shorter inner products win (facts: DeepSeek-V2, section 2.1.2).
    """

    name: ClassVar[str] = "absorb-projections"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    def run(self, program: Program) -> PassResult:
        """Apply the absorption rules to a fixed point."""
        return ApplyRules(RULES).run(program)
