"""What the search of a stage did, as the command line tells it."""

from collections.abc import Iterator
from dataclasses import dataclass

from ascendfx.passes.pipeline import PassRun
from ascendfx.passes.search.search_forms import SearchForms
from ascendfx.runtime.report.search_gain import gained_words, search_gain


@dataclass(frozen=True, slots=True)
class SearchSummary:
    """One search.

    Attributes:
        stage: Whose programs were searched, and for which plan.
        gain: How much less modelled time each function takes than in the fixed order; empty if
            there was nothing to compare.
        remarks: What it could not have, without places.
    """

    stage: str
    gain: str
    remarks: tuple[str, ...]

    def gain_line(self) -> str:
        """Return the gain in a line, or nothing."""
        if not self.gain:
            return ""
        return f"{self.stage}: search, modelled time against the fixed order of rules: {self.gain}"

    def remark_line(self) -> str:
        """Return the last remark, which says what was taken, in a line, or nothing."""
        if not self.remarks:
            return ""
        more = len(self.remarks) - 1
        others = f" (and {more} more: see the report of a dump)" if more else ""
        return f"{self.stage}: {self.remarks[-1]}{others}"


def search_summaries(stage: str, run: PassRun) -> Iterator[SearchSummary]:
    """Yield the summary of a pass if it is a search."""
    if isinstance(run.rewrite, SearchForms):
        gain, _ = search_gain(run.statistics)
        yield SearchSummary(stage, gained_words(gain), tuple(each.text for each in run.remarks))
