"""Which experts of a layer are kept: as many of each group, so that the router stays what it is."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError

_EXTREME = 10.0


@dataclass(frozen=True, slots=True)
class Routing:
    """How tokens choose experts.

    Attributes:
        experts: How many there are in each layer.
        chosen: Experts per token.
        groups: Equal groups in which they stand.
        kept_groups: Groups from which a token chooses.
        per_group: Experts whose scores add up to that of a group.
    """

    experts: int
    chosen: int
    groups: int = 1
    kept_groups: int = 1
    per_group: int = 1

    def check(self, count: int) -> None:
        """Check that a layer can have so many experts.

        Raises:
            GraphError: `bad-pruning`: more than there are, not as many of each group, or fewer than
                tokens choose.
        """
        why = ""
        each = count // self.groups
        if not 0 < count <= self.experts:
            why = f"a layer has {self.experts}"
        elif count % self.groups:
            why = f"they stand in {self.groups} groups, which stay equal"
        elif self.chosen > each * self.kept_groups:
            why = f"a token chooses {self.chosen} out of {self.kept_groups} groups of {each}"
        elif each < self.per_group:
            why = f"a group scores the sum of its best {self.per_group}, and would have {each}"
        if why:
            fine = [n for n in range(1, self.experts + 1) if self._fits(n)]
            hint = f"keep one of {', '.join(map(str, fine))}"
            raise GraphError("bad-pruning", f"{count} experts cannot be kept: {why}", hint=hint)

    def _fits(self, count: int) -> bool:
        each = count // self.groups
        enough = self.chosen <= each * self.kept_groups and each >= self.per_group
        return not count % self.groups and enough


def routing_of(config: Mapping[str, Any]) -> Routing:
    """Return the routing that the content of a ``config.json`` tells.

    Raises:
        GraphError: `bad-pruning`: the model has no routed experts.
    """
    experts = config.get("n_routed_experts")
    if not isinstance(experts, int) or experts < 1:
        reason = "the model has no routed experts that could be pruned"
        raise GraphError("bad-pruning", reason, hint="look at `n_routed_experts` of config.json")
    per_group = 2 if config.get("topk_method") == "noaux_tc" else 1
    return Routing(
        experts,
        config.get("num_experts_per_tok") or 1,
        config.get("n_group") or 1,
        config.get("topk_group") or 1,
        per_group,
    )


def kept_experts(
    scores: NDArray[np.float64], count: int, routing: Routing, protected: Collection[int] = ()
) -> tuple[int, ...]:
    """Return the experts that are kept, ascending: the best of each group, as many of each.

    Args:
        scores: Of each expert of a layer: the higher, the more it is worth.
        count: How many are kept.
        routing: How tokens choose.
        protected: Experts that are kept before all others of their group.

    Raises:
        GraphError: `bad-pruning`: the layer cannot have so many, or scores are of other experts.
    """
    routing.check(count)
    if scores.shape != (routing.experts,):
        reason = f"{len(scores)} scores are not of {routing.experts} experts"
        raise GraphError("bad-pruning", reason, hint="look at `n_routed_experts` of config.json")
    size, each = routing.experts // routing.groups, count // routing.groups
    found: list[int] = []
    for first in range(0, routing.experts, size):
        group = range(first, first + size)
        ranked = sorted(group, key=lambda e: (e not in protected, -scores[e], e))
        found += sorted(ranked[:each])
    return tuple(found)


def super_experts(peaks: NDArray[np.float64], *, extreme: float = _EXTREME) -> tuple[int, ...]:
    """Return the experts of a layer whose largest output is far beyond those of the others.

    Few of them make the massive activations that later layers rely on: without three of 6,144 a
    Qwen3-30B is broken (arXiv 2507.23279). Where the line is drawn is our own choice.

    Args:
        peaks: Largest magnitude in the outputs of each expert.
        extreme: Times the median of the layer.
    """
    return tuple(np.flatnonzero(peaks > extreme * np.median(peaks)).tolist())
