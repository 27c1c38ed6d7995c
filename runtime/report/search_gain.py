"""What search gained, from the statistics of its pass."""

import re
from collections.abc import Mapping
from typing import Any

_FIGURE = re.compile(r"(?P<graph>.+), (?P<form>\w+): (?P<unit>nanoseconds|bytes|flops)")
"""How `ascendfx.passes.search.search_forms` names the modelled cost of a form of a function."""
CHOSEN, FIXED = "chosen", "ordered"
"""The form that was taken, and the one that rules in their fixed order make."""

Gain = dict[str, dict[str, dict[str, float]]]
"""Graph, form, unit: the figure."""


def search_gain(statistics: Mapping[str, Any]) -> tuple[Gain, dict[str, Any]]:
    """Return the modelled cost of each form of each function, and the other statistics."""
    gain: Gain = {}
    others: dict[str, Any] = {}
    for name, value in statistics.items():
        found = _FIGURE.fullmatch(name)
        if found is None or not isinstance(value, int | float):
            others[name] = value
            continue
        forms = gain.setdefault(found["graph"], {})
        forms.setdefault(found["form"], {})[found["unit"]] = float(value)
    return gain, others


def gained_words(gain: Gain) -> str:
    """Return how much less time the chosen form takes than the fixed order, function by function.

    Functions that only one of the two forms is known of are left out.
    """
    words: list[str] = []
    for graph, forms in gain.items():
        chosen = forms.get(CHOSEN, {}).get("nanoseconds")
        fixed = forms.get(FIXED, {}).get("nanoseconds")
        if chosen is not None and fixed:
            words.append(f"@{graph} {100 * (chosen / fixed - 1):+.1f} %")
    return ", ".join(words)
