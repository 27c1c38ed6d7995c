"""Which experts stay, and that a model without the others is the model that never chooses them."""

from collections.abc import Mapping
from dataclasses import replace

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.ops import DispatchExperts, RouteTopk
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.quant_passes.expert_pruning.kept_experts import (
    Routing,
    kept_experts,
    routing_of,
    super_experts,
)
from ascendfx.quant_passes.expert_pruning.pruned_source import (
    PrunedSource,
    layers_with_experts,
    norm_scores,
)
from tests.benchmarks.parts.fake_quantized import FakeQuantized, narrow
from tests.quant.insertion.bundled_program import raised_program, texts, weights

V3 = Routing(256, 8, 8, 4, 2)
SMALL = Routing(8, 2, 2, 1, 2)
SCORES = np.array([5.0, 1, 4, 2, 0, 3, 3, 9])


def test_as_many_of_each_group_stay() -> None:
    assert kept_experts(SCORES, 4, SMALL) == (0, 2, 5, 7)  # ties: the lower number
    assert kept_experts(SCORES, 4, SMALL, protected=(1, 4)) == (0, 1, 4, 7)
    assert kept_experts(SCORES, 4, Routing(8, 2)) == (0, 2, 5, 7)
    assert kept_experts(SCORES, 8, SMALL) == tuple(range(8))


@pytest.mark.parametrize(
    ("count", "routing", "words"),
    [
        (0, SMALL, "a layer has 8"),
        (9, SMALL, "a layer has 8"),
        (3, SMALL, "2 groups"),
        (2, Routing(8, 1, 2, 1, 2), "best 2"),
        (8, V3, "chooses 8 out of 4 groups of 1"),
        (4, Routing(8, 3, 2, 1), "chooses 3 out of 1 groups of 2"),
    ],
)
def test_what_the_router_cannot_do_is_told(count: int, routing: Routing, words: str) -> None:
    with pytest.raises(GraphError, match="bad-pruning") as caught:
        routing.check(count)
    assert words in str(caught.value)
    for fine in map(int, (caught.value.hint or "").removeprefix("keep one of ").split(", ")):
        routing.check(fine)


def test_scores_of_others_are_refused() -> None:
    with pytest.raises(GraphError, match="bad-pruning"):
        kept_experts(SCORES, 4, Routing(16, 2))


def test_routing_is_read_from_the_configuration() -> None:
    config = {
        "n_routed_experts": 256,
        "num_experts_per_tok": 8,
        "n_group": 8,
        "topk_group": 4,
        "topk_method": "noaux_tc",
    }
    assert routing_of(config) == V3
    assert routing_of({"n_routed_experts": 4, "n_group": None}) == Routing(4, 1)
    with pytest.raises(GraphError, match="bad-pruning"):
        routing_of({"hidden_size": 4})


def test_extreme_outputs_are_seen() -> None:
    assert super_experts(np.array([1.0, 2, 1, 1, 15, 0])) == (4,)
    assert super_experts(np.ones(6)) == ()


LAYER = "model.layers.1.mlp"


def arrays() -> dict[str, Array]:
    random = np.random.default_rng(4)
    found: dict[str, Array] = {
        f"{LAYER}.experts.{e}.{part}_proj.weight": random.standard_normal((2, 3))
        for e in range(4)
        for part in ("gate", "up", "down")
    }
    found[f"{LAYER}.gate.weight"] = random.standard_normal((4, 3))
    found[f"{LAYER}.gate.e_score_correction_bias"] = random.standard_normal(4)
    found[f"{LAYER}.shared_experts.up_proj.weight"] = random.standard_normal((2, 3))
    found["model.layers.0.mlp.gate_proj.weight"] = random.standard_normal((4, 3))
    return found


def test_experts_are_numbered_anew_and_the_router_goes_with_them() -> None:
    own = arrays()
    pruned = PrunedSource(ArraySource(own), {LAYER: (1, 3)})
    assert len(pruned.keys()) == len(own) - 6
    for new, old in enumerate((1, 3)):
        for part in ("gate", "up", "down"):
            key = f"{LAYER}.experts.{{}}.{part}_proj.weight"
            np.testing.assert_array_equal(pruned.load(key.format(new)), own[key.format(old)])
    for key in ("weight", "e_score_correction_bias"):
        name = f"{LAYER}.gate.{key}"
        np.testing.assert_array_equal(pruned.load(name), own[name][[1, 3]])
        assert pruned.shape(name) == pruned.load(name).shape
    for key in (f"{LAYER}.shared_experts.up_proj.weight", "model.layers.0.mlp.gate_proj.weight"):
        np.testing.assert_array_equal(pruned.load(key), own[key])
    with pytest.raises(GraphError, match="missing-tensor"):
        pruned.load(f"{LAYER}.experts.2.up_proj.weight")
    with pytest.raises(GraphError, match="bad-pruning"):
        PrunedSource(ArraySource(own), {})


def test_norms_judge_layers_without_tokens() -> None:
    own = arrays()
    assert layers_with_experts(ArraySource(own)) == (LAYER,)
    own[f"{LAYER}.experts.2.up_proj.weight"] *= 100
    assert norm_scores(ArraySource(own), LAYER, 4).argmax() == 2


def smaller(program: Program, count: int) -> Program:
    """Return the program of a model with fewer experts; types are not looked at."""
    return replace(
        program,
        graphs=tuple(
            replace(
                graph,
                nodes=tuple(
                    replace(node, op=DispatchExperts(count))
                    if isinstance(node.op, DispatchExperts)
                    else node
                    for node in graph.nodes
                ),
            )
            for graph in program.graphs
        ),
    )


def numbers() -> dict[str, Array]:
    source = weights()
    return {key: narrow(np.asarray(source.load(key))) for key in source.keys()}  # noqa: SIM118


def fits(routing: Routing, count: int) -> bool:
    try:
        routing.check(count)
    except GraphError:
        return False
    return True


def logits(program: Program, numbers: Mapping[str, Array]) -> Array:
    return FakeQuantized(program, numbers, lambda _key, x: x, texts(1, 8)[:3]).logits()


def test_without_the_others_is_never_choosing_them() -> None:
    program, own = raised_program(), numbers()
    route = next(n.op for g in program.graphs for n in g.nodes if isinstance(n.op, RouteTopk))
    bias = next(key for key in own if key.endswith("e_score_correction_bias"))
    experts = len(own[bias])
    routing = Routing(experts, route.k, route.groups, route.topk_groups, 2)
    count = max(n for n in range(1, experts) if fits(routing, n))
    never, without = dict(own), dict(own)
    for key in own:
        layer = key.partition(".gate.")[0].partition(".experts.")[0]
        if layer + ".gate.weight" not in own:
            continue
        scores = np.random.default_rng(len(layer)).random(experts)
        kept = kept_experts(scores, count, routing)
        if key.endswith("e_score_correction_bias"):
            never[key] = np.where(np.isin(np.arange(experts), kept), own[key], -1e9)
        if ".experts." in key or ".gate." in key:
            without[key] = own[key][list(kept)]
    true = logits(program, never)
    np.testing.assert_allclose(logits(smaller(program, count), without), true, rtol=1e-6, atol=1e-6)
    assert np.abs(true - logits(program, own)).max() > 1e-3
