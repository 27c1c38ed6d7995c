"""Find the transforms of a model: factors by what weights see of texts, rotations by their seed."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Literal

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.passes.random_weights import checkpoint_types
from ascendfx.passes.rotation_parameter import is_rotation_name
from ascendfx.quant_passes.formats.format import Float64s
from ascendfx.quant_passes.insertion.sites import function_uses, key_of
from ascendfx.quant_passes.migration.choices import Choices
from ascendfx.quant_passes.migration.migrate_outliers import MigrateOutliers
from ascendfx.quant_passes.migration.places import Place, places_of, routers_of
from ascendfx.quant_passes.migration.transform_name import factors_name
from ascendfx.quant_passes.migration.transform_set import How, TransformSet, as_factors
from ascendfx.quant_passes.statistics import InputStatistics, merged
from ascendfx.quant_passes.transforms.flex_smooth_quant import FlexSmoothQuant
from ascendfx.quant_passes.transforms.hadamard import hadamard_rotation
from ascendfx.quant_passes.transforms.random_rotation import random_rotation
from ascendfx.quant_passes.transforms.scaling import column_absmax
from ascendfx.quant_passes.transforms.smooth_quant import SmoothQuant, smooth_factors

Seen = Callable[[str], Sequence[InputStatistics] | None]
"""What a weight saw, by its key: one for each expert; None: nothing is known."""


@dataclass(frozen=True, slots=True)
class Search:
    """How transforms are found.

    Attributes:
        factors: Looks for the factors of a place. On the bundled model the fixed exponent is better
            than exponents that are tried with int8 products of all readers together.
        rotation: ``hadamard`` spreads outliers evenly; ``random`` draws an orthogonal matrix.
        block: Size of the blocks of rotations; None: the whole width.
        seed: Of signs and matrices. Each rotation has a seed of its own, counted from it.
    """

    factors: FlexSmoothQuant | SmoothQuant = field(default_factory=SmoothQuant)
    rotation: Literal["hadamard", "random"] = "hadamard"
    block: int | None = None
    seed: int = 0


def find_transforms(
    program: Program,
    choices: Choices,
    source: TensorSource,
    seen: Seen,
    search: Search | None = None,
    *,
    before: Mapping[str, tuple[How, ...]] | None = None,
) -> TransformSet:
    """Return a transform for each chosen place.

    Weights of one place are in memory at a time. Channels that no token or no weight uses, and
    experts without tokens, have factors of 1.

    Args:
        program: Raised, without transforms.
        choices: Where transforms are.
        source: Its weights.
        seen: What weights see of texts, with kept inputs if the search is `FlexSmoothQuant`.
        search: How they are found; None: as `Search` has it.
        before: How they were found before: exponents, seeds and blocks are used again.

    Raises:
        GraphError: `statistics-missing`: nothing is known of the inputs at a place; what the
            search and `MigrateOutliers` raise.
    """
    finder = _Finder(source, seen, search or Search(), before or {})
    for graph, call in function_uses(program):
        routers = {name for name, _ in routers_of(graph)}
        for place in places_of(graph):
            if getattr(choices, place.kind) == "factors":
                finder.factors(graph, call, place, routers)
    wanted = checkpoint_types(MigrateOutliers(choices).run(program).program)
    for number, name in enumerate(filter(is_rotation_name, wanted)):
        finder.rotation(name, int(wanted[name].shape[0]), number)  # pyright: ignore[reportArgumentType]
    tensors = {name: found for name, found in finder.tensors.items() if name in wanted}
    return TransformSet(choices, tensors, {name: finder.how[name] for name in tensors})


@dataclass
class _Finder:
    source: TensorSource
    seen: Seen
    search: Search
    before: Mapping[str, tuple[How, ...]]
    tensors: dict[str, Float64s] = field(default_factory=dict[str, Float64s])
    how: dict[str, tuple[How, ...]] = field(default_factory=dict[str, tuple[How, ...]])

    def factors(self, graph: Graph, call: Call | None, place: Place, routers: set[str]) -> None:
        """Find the factors of a place, for one call of its function."""
        name = factors_name(key_of(call, place.name))
        keys = [key_of(call, each) for each in place.readers if each not in routers]
        if name in self.tensors or not keys:
            return
        weights = [np.asarray(self.source.load(key)).astype(np.float64) for key in keys]
        known = self._known(keys)
        if place.kind == "up" and len(place.shape) > 1:
            pairs = [([weights[0][i]], each) for i, each in enumerate(known)]
        else:
            whole = [each.reshape(-1, each.shape[-1]) for each in weights]
            one = known[0]
            for each in known[1:]:
                one = merged(one, each)
            pairs = [(whole, one)]
        again: Sequence[How | None] = self.before.get(name) or [None] * len(pairs)
        found = [self._found(*pair, how) for pair, how in zip(pairs, again, strict=True)]
        self.tensors[name] = np.stack([each for each, _ in found]).reshape(place.shape)
        self.how[name] = tuple(how for _, how in found)

    def rotation(self, name: str, width: int, number: int) -> None:
        """Make a rotation; rows are multiplied by its transpose, as by a weight."""
        (how,) = self.before.get(name) or (
            {
                "method": self.search.rotation,
                "seed": self.search.seed + number,
                "block": self.search.block,
            },
        )
        make = hadamard_rotation if how["method"] == "hadamard" else random_rotation
        block, seed = how["block"], how["seed"]
        made = make(width, block=None if block is None else int(block), seed=int(seed or 0))
        self.tensors[name] = np.ascontiguousarray(made.matrix().T)
        self.how[name] = (how,)

    def _known(self, keys: Sequence[str]) -> Sequence[InputStatistics]:
        for key in keys:
            if known := self.seen(key):
                return known
        reason = f"nothing is known of what `{keys[0]}` reads"
        hint = "give texts for calibration, or choose rotations, which need none"
        raise GraphError("statistics-missing", reason, hint=hint)

    def _found(
        self, weights: Sequence[Float64s], known: InputStatistics, before: How | None
    ) -> tuple[Float64s, How]:
        """Return factors by the exponents that were found before, or are found now."""
        how = before
        if how is None:
            search = self.search.factors
            alpha, beta = 0.0, 0.0
            if isinstance(search, SmoothQuant):
                alpha, beta = search.alpha, 1 - search.alpha
            elif known.tokens:
                found = search.search(weights, known)
                alpha, beta = found.alpha, found.beta
            how = {"method": search.name, "alpha": alpha, "beta": beta}
        exponents = float(how["alpha"] or 0), float(how["beta"] or 0)
        columns = column_absmax(weights, known)
        return as_factors(smooth_factors(known.absmax, columns, *exponents)), how
