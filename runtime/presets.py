"""Named pipelines from a captured program to the programs that are lowered."""

from ascendfx.passes.absorb_projections import AbsorbProjections
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import RAISE
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.simplify import Simplify

TO_SERVING: tuple[ProgramPass, ...] = (*RAISE, ShareCommon(), DeriveIncrementalForm())
"""From the captured forward to the step over rows with caches."""

_CLEAN_UP: tuple[ProgramPass, ...] = (
    Simplify(),
    FoldWeights(),
    Simplify(),
    ShareCommon(),
    DropUnused(),
)

DECODE: tuple[ProgramPass, ...] = (AbsorbProjections(), *_CLEAN_UP)
"""The step that adds one token to each of many requests: attention over the latent itself."""

PREFILL: tuple[ProgramPass, ...] = _CLEAN_UP
"""The step that adds a chunk of one request's prompt: keys and values are expanded."""
