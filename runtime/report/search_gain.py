"""What search gained, from the statistics of its pass."""

from collections.abc import Mapping
from typing import Any

from ascendfx.passes.search.figure import CHOSEN, NANOSECONDS, ORDERED, read_figure

Gain = dict[str, dict[str, dict[str, float]]]
"""Graph, form, unit: the figure."""


def search_gain(statistics: Mapping[str, Any]) -> tuple[Gain, dict[str, Any]]:
    """Return the modelled cost of each form of each function, and the other statistics."""
    gain: Gain = {}
    others: dict[str, Any] = {}
    for name, value in statistics.items():
        found = read_figure(name)
        if found is None or not isinstance(value, int | float):
            others[name] = value
            continue
        forms = gain.setdefault(found.graph, {})
        forms.setdefault(found.form, {})[found.unit] = float(value)
    return gain, others


def gained_words(gain: Gain) -> str:
    """Return how much less time the chosen form takes than the fixed order, function by function.

    Functions that only one of the two forms is known of are left out.
    """
    words: list[str] = []
    for graph, forms in gain.items():
        chosen = forms.get(CHOSEN, {}).get(NANOSECONDS)
        fixed = forms.get(ORDERED, {}).get(NANOSECONDS)
        if chosen is not None and fixed:
            words.append(f"@{graph} {100 * (chosen / fixed - 1):+.1f} %")
    return ", ".join(words)
