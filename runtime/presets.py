"""Named pipelines from a captured program to the programs that are lowered."""

from collections.abc import Mapping, Sequence

from ascendfx.codegen.ascendc.modelled_op_cost import ModelledOpCost
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.passes.absorb_projections import AbsorbProjections
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.close_step import CloseStep
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.drop_placeholders import DropPlaceholders
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.expose_hidden import CHAININGS, ExposeHidden
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.fuse_mtp import FuseMtp
from ascendfx.passes.gather_earlier import GatherEarlier
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pass_contract import check_own_passes
from ascendfx.passes.registry import RAISE
from ascendfx.passes.rule import Rule
from ascendfx.passes.rules import SEARCHED
from ascendfx.passes.search.egglog_matcher import load_egglog
from ascendfx.passes.search.search_forms import SearchForms
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.simplify import Simplify
from ascendfx.runtime.limits import Limits

TO_SERVING: tuple[ProgramPass, ...] = (*RAISE, ShareCommon(), DeriveIncrementalForm())
"""From the captured forward to the step over rows with caches."""


def serving_passes(
    rules: Sequence[Rule] = (),
    passes: Sequence[ProgramPass] = (),
    *,
    hidden: str | None = None,
) -> tuple[ProgramPass, ...]:
    """Return `TO_SERVING` with rules and passes of the caller.

    Args:
        rules: Applied first.
        passes: Applied behind the rules.
        hidden: Which hidden state draft layers read, see `ExposeHidden`; None: no draft layers.

    They are applied once, the rules to a fixed point and then the passes in order, where the
    operations are raised but still those of the model: after `RAISE`, before the caches are placed,
    so that both plans and the search see them. The search may use the rules once more, where they
    pay; see `passes_for`.

    Raises:
        GraphError: A pass of the caller is no pass, or has no name of its own.
    """
    passes = check_own_passes(passes)
    exposed = () if hidden is None else (ExposeHidden(hidden),)
    if not rules and not passes:
        return (*TO_SERVING, *exposed)
    own = (ApplyRules(tuple(rules)),) if rules else ()
    return (*RAISE, *own, *passes, Simplify(), *TO_SERVING[len(RAISE) :], *exposed)


def closing_passes(
    plan: str,
    drafts: Sequence[Program] = (),
    *,
    chaining: str = CHAININGS[0],
    branches: tuple[int, ...] = (),
) -> tuple[ProgramPass, ...]:
    """Return the passes from the program of a plan to the step that needs no host.

    Args:
        plan: ``decode`` or ``prefill``.
        drafts: The draft program of each depth; see `FuseMtp`.
        chaining: Which hidden state a depth hands to the next.
        branches: Candidates at each depth of a draft tree; empty: the drafts are a chain.
    """
    fused = (FuseMtp(tuple(drafts), chaining, branches),) if drafts else ()
    closed = CloseStep(plan, len(drafts), branches)
    return (closed, *fused, GatherEarlier(), DropPlaceholders(), ShareCommon(), DropUnused())


_CLEAN_UP: tuple[ProgramPass, ...] = (
    Simplify(),
    FoldWeights(),
    Simplify(),
    ShareCommon(),
    DropUnused(),
)

_BEFORE_CLEAN_UP: Mapping[str, tuple[ProgramPass, ...]] = {
    "decode": (AbsorbProjections(),),
    "prefill": (),
}
"""What the fixed order does, where the search decides by itself."""

DECODE: tuple[ProgramPass, ...] = (*_BEFORE_CLEAN_UP["decode"], *_CLEAN_UP)
"""The step that adds one token to each of many requests: attention over the latent itself."""

PREFILL: tuple[ProgramPass, ...] = _CLEAN_UP
"""The step that adds a chunk of one request's prompt: keys and values are expanded."""

_ORDERED: Mapping[str, tuple[ProgramPass, ...]] = {"decode": DECODE, "prefill": PREFILL}

STRATEGIES = ("ordered", "search")
"""Rules in a fixed order, or the cheapest form that the rules reach."""


def passes_for(
    plan: str,
    *,
    strategy: str = "ordered",
    target: Target,
    limits: Limits,
    rules: Sequence[Rule] = (),
) -> tuple[ProgramPass, ...]:
    """Return the passes from the serving form to the program that is lowered.

    Args:
        plan: ``decode`` or ``prefill``.
        strategy: One of `STRATEGIES`.
        target: The chip whose cost model the search asks.
        limits: Sizes of the plan.
        rules: Rules of the caller, which the search may use beside ours, where they pay.

    Raises:
        GraphError: No strategy has that name, or the search misses egglog.
    """
    if strategy not in STRATEGIES:
        raise GraphError(
            code="unknown-strategy",
            reason=f"no strategy is called `{strategy}`",
            hint=f"known strategies: {', '.join(STRATEGIES)}",
        )
    if strategy == "ordered":
        return _ORDERED[plan]
    load_egglog()  # missing: refused before the work, not after it
    search = SearchForms(
        rules=(*SEARCHED, *(rule for rule in rules if rule not in SEARCHED)),
        costs=ModelledOpCost(target, limits.step(plan), limits.blocks),
        ordered=_BEFORE_CLEAN_UP[plan],
    )
    return (search, *_CLEAN_UP)
