"""How tokens are chosen, as options of the command line."""

from collections.abc import Callable
from functools import wraps
from typing import Any

import click

from ascendfx.runtime.cli.idle_options import refuse_idle
from ascendfx.runtime.cli.option_words import wrong_options
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.verification import LOSSLESS, LOSSY, NAMES, Relaxed, Typical

_DEFAULT = Sampling()
_TYPICAL, _RELAXED = Typical(), Relaxed()

_OPTIONS = (
    ("temperature", float, "Logits are divided by it; 0 takes the most likely token."),
    ("top_k", int, "So many of the most likely tokens stay; 0: all."),
    ("top_p", float, "The fewest most likely tokens with so much probability stay."),
    ("min_p", float, "Tokens stay that have this share of the largest probability."),
    ("seed", int, "Of the first prompt; the others count up from it."),
    ("repetition_penalty", float, "For tokens of prompt and text; 1: none."),
    ("presence_penalty", float, "Off the logits of tokens that the text has; 0: none."),
    ("frequency_penalty", float, "The same, times how often it has them; 0: none."),
)

_VERIFICATION = click.option(
    "--verification",
    type=click.Choice(NAMES),
    default="exact",
    show_default=True,
    help=f"Verification of drafts. Lossless: {', '.join(LOSSLESS)}; exact gives the very text "
    "without drafts, the others one of the same distribution. LOSSY, another text: "
    f"{', '.join(LOSSY)}.",
)
_PARAMETERS = (
    ("typical_threshold", float, _TYPICAL.threshold, "LOSSY: of --verification typical."),
    ("typical_alpha", float, _TYPICAL.alpha, "LOSSY: of --verification typical."),
    ("relaxed_top_k", int, _RELAXED.top_k, "LOSSY: of --verification relaxed."),
    ("relaxed_delta", float, _RELAXED.delta, "LOSSY: of --verification relaxed."),
)


def _spelled(name: str) -> str:
    return f"--{name.replace('_', '-')}"


SPELLED = {name: _spelled(name) for name, *_ in _OPTIONS}
"""Option of each argument of `Sampling`."""


def sampling_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command the options of `Sampling`, which it gets as ``sampling``."""

    @wraps(command)
    def chosen(**given: Any) -> Any:
        options = {name: given.pop(name) for name, *_ in _OPTIONS}
        own = {name: given.pop(name) for name, *_ in _PARAMETERS}
        named = given.pop("verification")
        with wrong_options(SPELLED):
            sampling = Sampling(**options, verification=_verification(named, own))
        _refuse_idle(named)
        return command(sampling=sampling, **given)

    for name, kind, default, text in reversed(_PARAMETERS):
        chosen = _option(name, kind, default, text)(chosen)
    chosen = _VERIFICATION(chosen)
    for name, kind, text in reversed(_OPTIONS):
        chosen = _option(name, kind, getattr(_DEFAULT, name), text)(chosen)
    return chosen


def _refuse_idle(verification: str) -> None:
    for name in LOSSY:
        if name != verification:
            own = [each for each, *_ in _PARAMETERS if each.startswith(f"{name}_")]
            way = f"--verification {name}"
            refuse_idle(own, f"without {way}", f"pass {way}, which is lossy")


def _option(name: str, kind: type, default: object, text: str) -> Callable[..., Any]:
    return click.option(_spelled(name), type=kind, default=default, show_default=True, help=text)


def _verification(name: str, own: dict[str, Any]) -> str | Typical | Relaxed:
    if name == "typical":
        with wrong_options(_spelled_of("typical")):
            return Typical(threshold=own["typical_threshold"], alpha=own["typical_alpha"])
    if name == "relaxed":
        with wrong_options(_spelled_of("relaxed")):
            return Relaxed(top_k=own["relaxed_top_k"], delta=own["relaxed_delta"])
    return name


def _spelled_of(kind: str) -> dict[str, str]:
    """Return the option of each argument of `Typical` or `Relaxed`."""
    own = [name for name, *_ in _PARAMETERS if name.startswith(f"{kind}_")]
    return {name.removeprefix(f"{kind}_"): _spelled(name) for name in own}
