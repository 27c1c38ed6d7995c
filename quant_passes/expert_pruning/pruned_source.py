"""The weights of a model with fewer routed experts."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import TensorSource, unknown_tensor
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.expert_keys import EXPERT, MATRICES, ROUTER
from ascendfx.quant_passes.formats.format import Float64s


@dataclass(frozen=True, slots=True)
class PrunedSource:
    """The same weights, without some experts: those that stay are numbered from 0.

    Rows and biases of the router go with their experts, so that a token chooses among those that
    are left as if the others had never been the best.

    Attributes:
        source: All weights, experts one by one.
        kept: By layer (what the keys of its experts begin with), the experts that stay, ascending.

    Raises:
        GraphError: `bad-pruning`: a layer has experts of which nothing is told.
    """

    source: TensorSource
    kept: Mapping[str, tuple[int, ...]]
    _own: Mapping[str, str] = field(init=False, repr=False, compare=False)

    def __post_init__(self) -> None:
        own: dict[str, str] = {}
        for key in self.source.keys():  # noqa: SIM118  # not a mapping
            parts = EXPERT.fullmatch(key)
            if parts is None:
                own[key] = key
                continue
            layer, number, rest = parts[1], int(parts[2]), parts[3]
            if layer not in self.kept:
                reason = f"which experts of `{layer}` are kept is not told"
                raise GraphError("bad-pruning", reason, hint="keep as many in all layers")
            if number in self.kept[layer]:
                own[f"{layer}.experts.{self.kept[layer].index(number)}.{rest}"] = key
        object.__setattr__(self, "_own", own)

    def keys(self) -> Collection[str]:
        """Return the keys of all tensors that are left."""
        return self._own.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape; raises `GraphError` for an unknown key."""
        shape, rows = self.source.shape(self._find(key)), self._rows(key)
        return shape if rows is None else (len(rows), *shape[1:])

    def dtype(self, key: str) -> DType:
        """Return the element format."""
        return self.source.dtype(self._find(key))

    def load(self, key: str) -> NDArray[Any]:
        """Return the values."""
        values, rows = self.source.load(self._find(key)), self._rows(key)
        return values if rows is None else values[np.asarray(rows)]

    def _rows(self, key: str) -> tuple[int, ...] | None:
        parts = ROUTER.fullmatch(key)
        return self.kept.get(parts[1]) if parts else None

    def _find(self, key: str) -> str:
        if key not in self._own:
            raise unknown_tensor(key)
        return self._own[key]


def layers_with_experts(source: TensorSource) -> tuple[str, ...]:
    """Return what the keys of routed experts begin with, layer by layer."""
    found = (EXPERT.fullmatch(key) for key in source.keys())  # noqa: SIM118  # not a mapping
    return tuple(dict.fromkeys(parts[1] for parts in found if parts))


def norm_scores(source: TensorSource, layer: str, experts: int) -> Float64s:
    """Return for each expert the product of the norms of its matrices.

    For layers that no text reaches: a stand-in, as good as the guess that large weights matter.

    Args:
        source: All weights, experts one by one.
        layer: What the keys of its experts begin with.
        experts: How many there are.
    """

    def norm(expert: int, part: str) -> float:
        weight = source.load(f"{layer}.experts.{expert}.{part}").astype(np.float64)
        return float(np.sqrt(np.square(weight).sum()))

    found = [prod(norm(expert, part) for part in MATRICES) for expert in range(experts)]
    return np.array(found, np.float64)
