"""From a dump to the smallest case of its first mistake."""

from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import Location
from ascendfx.ir.op import Array
from ascendfx.passes.describe_pass import restore_pass
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.reduction.reduce_pass import Broken, Reduced, reduce_pass
from ascendfx.runtime.dumps.bisect_dump import Culprit, bisect_dump, captured_of
from ascendfx.runtime.dumps.read_dump import Dump
from ascendfx.runtime.progress import Progress, silent

_LOOK = "look at its two programs in the dump, or at `ascendfx report`"


@dataclass(frozen=True)
class ReducedDump:
    """The case, and the pass it accuses.

    Attributes:
        culprit: The pass.
        reduced: The case.
    """

    culprit: Culprit
    reduced: Reduced


def reduce_dump(
    dump: Dump,
    tensors: Mapping[str, Array],
    tokens: Array,
    *,
    allow_code: bool = False,
    progress: Progress = silent,
) -> ReducedDump | None:
    """Return the smallest case of the first pass that breaks its fidelity, or None if none does.

    Args:
        dump: The dump.
        tensors: Weights by key.
        tokens: Ids ``[texts, tokens]``.
        allow_code: Import the modules of passes of others; see `restore_pass`.
        progress: Told about each stage.

    Raises:
        GraphError: The dump is damaged, or the difference needs the whole program.
    """
    culprit = bisect_dump(dump, tensors, tokens, allow_code=allow_code, progress=progress).culprit
    if culprit is None:
        return None
    if _is_closing(culprit):
        raise GraphError(
            code="not-reducible",
            reason=f"pass `{culprit.entry.name}` was compared on a whole step, and "
            f"{culprit.check.broken}",
            hint=_LOOK,
        )
    rewrite: ProgramPass | None = None
    with suppress(GraphError):  # the caller was told by `lost_passes`
        rewrite = restore_pass(culprit.entry.form, allow_code=allow_code)
    broken = Broken(
        culprit.before,
        culprit.after,
        culprit.entry.fidelity,
        culprit.check.found,
        captured_of(dump, culprit.stage),
        tensors,
        tokens,
        _near(culprit),
    )
    reduced = reduce_pass(broken, rewrite, lambda what, done: progress(what, done, done + 1))
    if reduced is None:
        raise GraphError(
            code="not-reducible",
            reason=f"the difference that pass `{culprit.entry.name}` makes needs the whole program",
            hint=_LOOK,
        )
    return ReducedDump(culprit, reduced)


def _is_closing(culprit: Culprit) -> bool:
    """Whether a step is closed, which chooses its tokens itself."""
    stage, number = culprit.stage, culprit.entry.number
    return stage.at.layer is None and number > len(stage.on_tokens)


def _near(culprit: Culprit) -> frozenset[Location]:
    """Return the lines of the first different value and of what it reads."""
    place = culprit.check.place
    if place is None:
        return frozenset()
    nodes = place.graph.nodes
    return frozenset(
        {place.node.location, *(nodes[value.node].location for value in place.node.operands)}
    )
