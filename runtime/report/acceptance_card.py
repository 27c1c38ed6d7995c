"""How many drafts were accepted, for the overview of a page."""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendfx.runtime.engine.metrics import Acceptance, Metrics
from ascendfx.runtime.report.units import digits


@dataclass(frozen=True, slots=True)
class AcceptanceRow:
    """A line of a table: a position of drafts, or a request.

    Attributes:
        name: Number of the position, from 1, or of the request.
        words: Further columns.
        rate: Accepted of proposed drafts; empty without any.
        part: The same as the length of a bar.
    """

    name: str
    words: tuple[str, ...]
    rate: str
    part: str


@dataclass(frozen=True, slots=True)
class AcceptanceCard:
    """Figures of an engine.

    Attributes:
        headline: Tokens per step.
        facts: Names and what is said of them.
        positions: Of each place of a draft in its step.
        requests: Of each request that is known.
        warnings: What the engine warned of.
    """

    headline: str
    facts: tuple[tuple[str, str], ...]
    positions: tuple[AcceptanceRow, ...]
    requests: tuple[AcceptanceRow, ...]
    warnings: tuple[str, ...]


def acceptance_card(metrics: Metrics) -> AcceptanceCard:
    """Return what a page says of an engine's figures."""
    positions = zip(metrics.proposed, metrics.accepted, strict=True)
    facts = (
        ("decode steps", f"{metrics.steps:,}"),
        ("steps of requests", f"{metrics.request_steps:,}"),
        ("tokens of these", f"{metrics.tokens:,}"),
        ("drafts accepted", f"{sum(metrics.accepted):,} of {sum(metrics.proposed):,}"),
    )
    return AcceptanceCard(
        headline=_per_step(metrics.tokens, metrics.request_steps),
        facts=facts,
        positions=tuple(
            AcceptanceRow(str(i), (f"{p:,}", f"{a:,}"), *_rate(a, p))
            for i, (p, a) in enumerate(positions, start=1)
        ),
        requests=tuple(_requests(metrics)),
        warnings=metrics.warnings,
    )


def _requests(metrics: Metrics) -> Iterator[AcceptanceRow]:
    known: dict[int, tuple[str, Acceptance]] = {
        request: ("ended", each) for request, each in metrics.ended.items()
    }
    known |= {request: ("runs", each) for request, each in metrics.requests.items()}
    for request in sorted(known):
        state, each = known[request]
        words = (state, f"{each.tokens:,}", f"{each.steps:,}", str(each.drafts))
        yield AcceptanceRow(str(request), words, *_rate(each.accepted, each.proposed))


def _per_step(tokens: int, steps: int) -> str:
    return f"{digits(tokens / steps)} tokens per step" if steps else "no step yet"


def _rate(accepted: int, proposed: int) -> tuple[str, str]:
    if not proposed:
        return "–", "0"
    part = min(accepted / proposed, 1.0)
    return f"{100 * part:.1f} %", f"{part:.4f}"
