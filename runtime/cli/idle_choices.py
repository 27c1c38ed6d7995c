"""Options of ``ascendfx run`` that change nothing: beside the others, or with this package."""

from collections.abc import Callable
from dataclasses import dataclass, replace

from ascendfx.runtime.cli.idle_options import refuse_idle
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.sampling import Sampling


@dataclass(frozen=True, slots=True, kw_only=True)
class Choices:
    """What a user chose, and what the package offers.

    Attributes:
        sampling: How tokens are chosen.
        draft_tokens: Drafts per step; None: all.
        max_new_tokens: Limit per prompt.
        min_new_tokens: No token that ends a text is taken before so many.
        stops: Whether there are stop ids.
        ignore_eos: Whether end tokens do not end a text.
        drafts: Most drafts per step of the package; None: not known yet.
        ends: End tokens of the package; None: not known yet.
    """

    sampling: Sampling
    draft_tokens: int | None
    max_new_tokens: int
    min_new_tokens: int
    stops: bool
    ignore_eos: bool
    drafts: int | None = None
    ends: int | None = None


_GREEDY = "at --temperature 0, which takes the most likely token"
_WARMER = "pass a --temperature above 0"

_TABLE: tuple[tuple[tuple[str, ...], Callable[[Choices], bool], str, str], ...] = (
    (("top_k", "top_p", "min_p", "seed"), lambda c: not c.sampling.temperature, _GREEDY, _WARMER),
    (
        ("verification",),
        lambda c: not c.sampling.temperature and c.sampling.verification in {"rejection", "block"},
        f"{_GREEDY}, as exact does",
        _WARMER,
    ),
    (
        ("verification",),
        lambda c: c.draft_tokens == 0,
        "with --draft-tokens 0",
        "pass a larger number",
    ),
    (
        ("adaptive_drafts",),
        lambda c: c.draft_tokens is not None,
        "with --draft-tokens",
        "run without it",
    ),
    (
        ("adaptive_drafts", "draft_tokens", "verification"),
        lambda c: c.drafts == 0,
        "without drafts",
        "compile with --draft-tokens K",
    ),
    (
        ("min_new_tokens",),
        lambda c: c.min_new_tokens > c.max_new_tokens,
        "beyond --max-new-tokens",
        "pass a smaller one",
    ),
    (
        ("min_new_tokens",),
        lambda c: c.ignore_eos and not c.stops,
        "with --ignore-eos and no --stop-id, as no token ends a text",
        "pass a --stop-id",
    ),
    (
        ("min_new_tokens",),
        lambda c: c.ends == 0 and not c.stops,
        "without --stop-id, as the package has no end tokens",
        "pass a --stop-id",
    ),
    (
        ("ignore_eos",),
        lambda c: c.ends == 0,
        "without end tokens in the package",
        "pass another package",
    ),
)
"""Parameters, when they change nothing, what is said of that, and what to do."""


def refuse_idle_choices(choices: Choices) -> None:
    """Refuse what changes nothing, as far as the package is known.

    Raises:
        click.UsageError: Such an option was written.
    """
    for names, is_idle, where, instead in _TABLE:
        if is_idle(choices):
            refuse_idle(names, where, instead)


def refuse_idle_with(engine: Engine, choices: Choices) -> None:
    """Refuse what changes nothing with a package that has been loaded.

    Raises:
        click.UsageError: Such an option was written.
    """
    drafts, ends = len(engine.metrics.proposed), len(engine.config.end_tokens)
    refuse_idle_choices(replace(choices, drafts=drafts, ends=ends))
