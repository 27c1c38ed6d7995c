"""The pass that moves outliers of activations into weights."""

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import ClassVar

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program, param_names
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import Fidelity, PassResult, ProgramPass
from ascendfx.passes.rule import Rule
from ascendfx.passes.share_common import ShareCommon
from ascendfx.quant_passes.migration import rules
from ascendfx.quant_passes.migration.choices import FACTORS, Choices
from ascendfx.quant_passes.migration.fold_transforms import fold_transforms
from ascendfx.quant_passes.migration.insert_pairs import STREAM, insert_pairs
from ascendfx.quant_passes.migration.moved_transforms import (
    is_backward,
    is_forward,
    is_transform,
    on_transforms,
)
from ascendfx.quant_passes.migration.places import Place, places_of, routers_of
from ascendfx.quant_passes.migration.stream import Stream, stream_of
from ascendfx.quant_passes.migration.transform_name import is_transform_name


@dataclass(frozen=True, slots=True)
class MigrateOutliers(ProgramPass):
    """Inserts transforms that cancel, and folds both halves into weights.

    A transform is a pair: a quotient and a product with factors, or a rotation and its transpose.
    One half goes by proved rules to who makes the channels, the other to who reads them. Both
    arrive at weights and gains, which become parameters with recipes ``<name>#migrated``, made
    when they are needed. Transforms are parameters, too: ``<place>#factors``, ``<place>#rotation``,
    f64, delivered beside the weights. With factors of 1 and rotations by nothing the result is
    what it was before.

    It is run on a raised program, before the incremental form is derived.

    Attributes:
        choices: Which transform goes to which kind of place.
    """

    name: ClassVar[str] = "migrate-outliers"
    fidelity: ClassVar[Fidelity] = Fidelity.REAL

    choices: Choices = FACTORS

    def run(self, program: Program) -> PassResult:
        """Transform every function.

        Raises:
            GraphError: `not-folded`: an operation stands between a transform and the weight that
                could take it; `router-format`: a router that would be rounded.
        """
        stream = stream_of(program) if self.choices.stream == "rotation" else {}
        made = {graph.name: self._migrated(graph, stream) for graph in program.graphs}
        counts: Counter[str] = sum((each.counts for each in made.values()), Counter())
        if not counts:
            return PassResult(program)
        recipes = dict(program.recipes) | {
            (graph, name): recipe
            for graph, each in made.items()
            for name, recipe in each.recipes.items()
        }
        transforms = {name: each.transforms for name, each in made.items()}
        graphs = tuple(_with_keys(each.graph, transforms) for each in made.values())
        return PassResult(Program(graphs, recipes), dict(counts))

    def _migrated(self, graph: Graph, stream: Stream) -> "_Migrated":
        places = tuple(_chosen(places_of(graph), self.choices))
        values = stream.get(graph.name, frozenset())
        if not places and not values:
            return _Migrated(graph)
        _check_routers(graph, places, rotated=bool(values))
        pairs = insert_pairs(graph, places, self.choices, values)
        folded = ApplyRules(_rules(pairs.gains)).run_graph(pairs.graph)
        counts = Counter(f"{place.kind} places" for place in places)
        counts.update({f"rule {name}": n for name, n in folded.statistics.items()})
        shared = ShareCommon().run_graph(folded.graph).graph  # rules repeat how rows are dispatched
        result, recipes = fold_transforms(shared)
        named = (name for recipe in recipes.values() for name in param_names(recipe))
        transforms = tuple(dict.fromkeys(filter(is_transform_name, named)))
        return _Migrated(result, recipes, transforms, counts)


@dataclass(frozen=True, slots=True)
class _Migrated:
    """What became of a graph.

    Attributes:
        graph: The graph.
        recipes: How its migrated parameters are made.
        transforms: The parameters that they are made of beside those of before.
        counts: What was done.
    """

    graph: Graph
    recipes: Mapping[str, Graph] = field(default_factory=dict[str, Graph])
    transforms: tuple[str, ...] = ()
    counts: Counter[str] = field(default_factory=Counter[str])


def _chosen(places: tuple[Place, ...], choices: Choices) -> Iterator[Place]:
    for place in places:
        if getattr(choices, place.kind):
            yield place


def _rules(gains: frozenset[str]) -> tuple[Rule, ...]:
    """Return the rules, each for transforms of its direction alone."""
    return (
        *(
            on_transforms(rule, "s", lambda g, v: is_transform(g, v, gains))
            for rule in rules.SCALES
        ),
        *(on_transforms(rule, "r", is_forward) for rule in rules.UP),
        *(on_transforms(rule, "r", is_backward) for rule in rules.DOWN),
        on_transforms(rules.COMPOSE, "c", is_forward),
        on_transforms(rules.COMPOSE, "a", is_backward),
    )


def _check_routers(graph: Graph, places: tuple[Place, ...], *, rotated: bool) -> None:
    """Refuse to change a router that is not computed in f32: its choices would change.

    Args:
        graph: The graph.
        places: Where transforms are.
        rotated: Whether the stream is rotated, which every router reads.

    Raises:
        GraphError: `router-format`.
    """
    read = {name for place in places for name in place.readers}
    for name, node in routers_of(graph):
        if (rotated or name in read) and node.types[0].dtype is not DType.F32:
            reason = f"the router `{name}` of @{graph.name} computes in {node.types[0].dtype.value}"
            hint = "keep it in f32, or leave out `stream`: rounded again, it chooses other experts"
            raise GraphError("router-format", reason, node.location, hint=hint)


def _with_keys(graph: Graph, transforms: Mapping[str, tuple[str, ...]]) -> Graph:
    """Return a graph whose calls say which transforms they mean."""
    nodes = tuple(
        replace(node, op=_call(node.op, transforms[node.op.callee]))
        if isinstance(node.op, Call)
        else node
        for node in graph.nodes
    )
    return replace(graph, nodes=nodes)


def _call(call: Call, transforms: tuple[str, ...]) -> Call:
    keys = ((name, transform_key(call, name)) for name in transforms)
    return replace(call, keys=(*call.keys, *keys))


def transform_key(call: Call | None, transform: str) -> str:
    """Return the name under which a transform of a function is delivered for a call."""
    place, mark, kind = transform.rpartition("#")
    if call is None or place == STREAM:
        return transform
    return f"{call.key_of(place)}{mark}{kind}"
