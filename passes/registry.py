"""The passes of ascendfx by name, and those that raise a captured program."""

from collections.abc import Mapping

from ascendfx.passes.absorb_projections import AbsorbProjections
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.close_step import CloseStep
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.drop_batch_axis import DropBatchAxis
from ascendfx.passes.drop_placeholders import DropPlaceholders
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.expose_hidden import ExposeHidden
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.gather_earlier import GatherEarlier
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.hoist_transposes import HoistTransposes
from ascendfx.passes.mask_by_addition import MaskByAddition
from ascendfx.passes.narrow_repeated_inputs import NarrowRepeatedInputs
from ascendfx.passes.raise_operations import RaiseOperations
from ascendfx.passes.recognise_causal_mask import RecogniseCausalMask
from ascendfx.passes.rules import RULES
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.share_key_heads import ShareKeyHeads
from ascendfx.passes.simplify import Simplify
from ascendfx.passes.split_attention_parts import SplitAttentionParts

RAISE: tuple[ProgramPass, ...] = (
    Simplify(),
    NarrowRepeatedInputs(),
    Simplify(),
    MaskByAddition(),
    RaiseOperations(),
    RecogniseCausalMask(),
    HoistTransposes(),
    SplitAttentionParts(),
    ShareKeyHeads(),
    Simplify(),
)
"""From captured primitives to operations of the field, token-major."""

PROGRAM_PASSES: tuple[ProgramPass, ...] = (
    AbsorbProjections(),
    CloseStep(),
    DeriveIncrementalForm(),
    DropBatchAxis(),
    DropUnused(),
    ExposeHidden(),
    FoldWeights(),
    GatherEarlier(),
    HoistTransposes(),
    MaskByAddition(),
    NarrowRepeatedInputs(),
    DropPlaceholders(),
    RaiseOperations(),
    RecogniseCausalMask(),
    ShareCommon(),
    ShareKeyHeads(),
    Simplify(),
    SplitAttentionParts(),
)
"""What is more than one rule, with default parameters."""

PASSES: Mapping[str, ProgramPass] = {each.name: each for each in PROGRAM_PASSES} | {
    rule.name: ApplyRules((rule,)) for rule in RULES
}
"""Every pass and rule that `ascendfx opt` knows, by name."""
