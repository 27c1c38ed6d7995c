"""How long each pass of a stage took, as far as the dump says."""

from collections.abc import Mapping
from typing import Any

from ascendfx.runtime.report.read_whole_dump import Stage


def pass_seconds(timing: Mapping[str, Any], stage: Stage) -> list[list[float] | None]:
    """Return ``[seconds, seconds of verification]`` per version, None where nothing is known.

    The input has no pass. Timing is no part of what a dump says about a model, so entries that do
    not fit the passes are left out instead of refused.
    """
    known: list[list[float] | None] = [None] * len(stage.versions)
    passes = timing.get("passes")
    entries = passes.get(stage.name) if isinstance(passes, Mapping) else None
    if not isinstance(entries, list):
        return known
    for index, entry in enumerate(entries[: len(known) - 1], start=1):
        if isinstance(entry, Mapping) and entry.get("pass") == stage.versions[index].name:
            spent = [entry.get("seconds"), entry.get("verification", 0.0)]
            numbers = [float(each) for each in spent if isinstance(each, int | float)]
            known[index] = numbers if len(numbers) == 2 else None
    return known
