"""Models with outliers that change nothing, and migrated models with weights that are made."""

from collections.abc import Iterator, Mapping
from dataclasses import replace

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.evaluate import Evaluator
from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.quant_passes.insertion.sites import key_of
from ascendfx.quant_passes.migration.places import Place, places_of
from ascendfx.quant_passes.migration.transform_name import is_migrated, migrated_name

Weights = Mapping[str, Array]


def with_outliers(
    program: Program, weights: Weights, *, factor: float = 100.0, share: float = 0.01, seed: int = 0
) -> dict[str, Array]:
    """Return weights with which the model computes the same, and has outliers before projections.

    Of each norm, some gains are multiplied, and the columns of all weights that read them divided:
    routers and all experts, too.

    Args:
        program: Raised.
        weights: Its weights, float32.
        factor: How much larger a channel becomes.
        share: Part of the channels, at least one.
        seed: Chooses them.
    """
    random = np.random.default_rng(seed)
    changed = {key: np.array(each) for key, each in weights.items()}
    done: set[str] = set()
    for place, call in _norms(program):
        gain = key_of(call, place.name)
        if gain in done:
            continue
        done.add(gain)
        (width,) = place.shape
        channels = random.choice(width, max(1, round(share * width)), replace=False)
        changed[gain][channels] *= np.float32(factor)
        for reader in place.readers:
            changed[key_of(call, reader)][..., channels] /= np.float32(factor)
    return changed


def _norms(program: Program) -> Iterator[tuple[Place, Call | None]]:
    calls = [(program.main, None)] + [
        (program.by_name[node.op.callee], node.op)
        for node in program.main.nodes
        if isinstance(node.op, Call)
    ]
    for graph, call in calls:
        for place in places_of(graph):
            if place.kind in ("stream", "latent"):
                yield place, call


def materialised(program: Program, weights: Weights) -> tuple[Program, dict[str, Array]]:
    """Return a migrated program whose weights need no recipes, and these weights, float32."""
    made: dict[str, Array] = dict(weights)
    maker = _Maker(program, weights)
    graphs: list[Graph] = []
    for graph in program.graphs:
        nodes: list[Node] = []
        for node in graph.nodes:
            if not isinstance(node.op, Call):
                nodes.append(node)
                continue
            names = [name for owner, name in program.recipes if owner == node.op.callee]
            pairs = [(name, _key(node.op, name)) for name in names if is_migrated(name)]
            made |= {key: maker.made(node.op.callee, name, node.op) for name, key in pairs}
            nodes.append(replace(node, op=replace(node.op, keys=(*node.op.keys, *pairs))))
        graphs.append(replace(graph, nodes=tuple(nodes)))
    for owner, name in program.recipes:
        if owner == program.main.name and is_migrated(name):
            made[name] = maker.made(owner, name, None)
    rest = {key: each for key, each in program.recipes.items() if not is_migrated(key[1])}
    return Program(tuple(graphs), rest), made


def _key(call: Call, name: str) -> str:
    return migrated_name(key_of(call, name))


class _Maker(Evaluator[Array]):
    """Makes weights in float64."""

    def __init__(self, program: Program, weights: Weights) -> None:
        super().__init__(program)
        self._weights = weights

    def made(self, graph: str, name: str, call: Call | None) -> NDArray[np.float32]:
        """Return a migrated weight, rounded once."""
        recipe = self.program.recipes[graph, name]
        found = self.weight(Graph(graph, recipe.nodes, recipe.outputs), call)
        return np.asarray(found, np.float32)

    def step(self, node: Node, operands: tuple[Array, ...]) -> tuple[Array, ...]:
        return tuple(np.asarray(each) for each in node.op.reference(*operands))

    def tensor(self, graph: Graph, key: str) -> Array:
        return np.asarray(self._weights[key], np.float64)
