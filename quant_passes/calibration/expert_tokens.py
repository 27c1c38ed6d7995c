"""How many tokens each expert saw: what statistics of it are worth."""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from statistics import median

from ascendfx.quant_passes.calibration.statistics_by_layer import LayerStatistics


@dataclass(frozen=True, slots=True)
class ExpertTokens:
    """Tokens of the experts of one weight.

    Attributes:
        key: The stacked weight.
        counts: Tokens of each expert.
    """

    key: str
    counts: tuple[int, ...]

    @property
    def without(self) -> tuple[int, ...]:
        """Experts that saw no token."""
        return tuple(expert for expert, count in enumerate(self.counts) if not count)

    def __str__(self) -> str:
        some = ", ".join(map(str, self.without[:8])) + (", ..." if len(self.without) > 8 else "")
        none = f"; none: {len(self.without)} ({some})" if self.without else ""
        low, high = min(self.counts), max(self.counts)
        return f"{self.key}: {low} to {high} tokens, median {median(self.counts):g}{none}"


def expert_tokens(layers: Iterable[LayerStatistics]) -> Iterator[ExpertTokens]:
    """Yield the counts of all stacked weights."""
    for layer in layers:
        for key in layer.rows:
            if len(layer.rows[key]) > 1:
                yield ExpertTokens(key, layer.token_counts(key))
