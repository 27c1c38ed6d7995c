"""What experts added to the tokens that chose them, against the definition."""

from functools import cache

import numpy as np
import pytest

from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, CombineExperts, RouteTopk
from ascendfx.quant_passes.expert_pruning.expert_evidence import ExpertEvidence, expert_evidence
from tests.passes.captured_models import raised
from tests.quant.mixed_precision.small_model import MODEL, source, weights, windows


@cache
def found() -> dict[str, ExpertEvidence]:
    made = expert_evidence(raised(MODEL), source(), windows())
    return {each.layer: each for each in made}


@cache
def routed() -> dict[str, tuple[Array, Array, Array, Array]]:
    """Return outputs, places, weights and ids of each layer, as the interpreter has them."""
    program = raised(MODEL)
    seen: dict[str, dict[int, tuple[Array, ...]]] = {}
    layers: dict[str, tuple[Array, Array, Array, Array]] = {}

    def observe(graph: Graph, position: int, results: tuple[Array, ...]) -> None:
        seen.setdefault(graph.name, {})[position] = results
        op = graph.nodes[position].op
        if graph is program.main and isinstance(op, Call):
            body = program.by_name[op.callee]
            values = seen[body.name]
            for node in body.nodes:
                if isinstance(node.op, CombineExperts):
                    route = next(i for i, n in enumerate(body.nodes) if isinstance(n.op, RouteTopk))
                    given = [values[v.node][v.result] for v in node.operands]
                    key = next(k for _, k in op.keys if k.endswith("experts.down_proj"))
                    layer = key.removesuffix(".experts.down_proj")
                    layers[layer] = (given[0], given[1], given[2], values[route][1])

    interpret(program, {**weights(), "token_ids": windows()}, observe=observe)
    return layers


def test_every_layer_with_experts_is_judged() -> None:
    assert set(found()) == set(routed())
    assert found()


def test_experts_are_judged_by_what_they_add() -> None:
    for layer, (outputs, place, gates, ids) in routed().items():
        made = found()[layer]
        tokens, chosen = gates.shape
        added, peaks = np.zeros(len(made.tokens)), np.zeros(len(made.tokens))
        counts = np.zeros(len(made.tokens), int)
        for token in range(tokens):
            for j in range(chosen):
                expert = int(ids.reshape(tokens, chosen)[token, j])
                output = outputs[place[token * chosen + j]]
                added[expert] += gates[token, j] * np.linalg.norm(output)
                peaks[expert] = max(peaks[expert], np.abs(output).max())
                counts[expert] += 1
        np.testing.assert_array_equal(made.tokens, counts)
        np.testing.assert_allclose(made.added, added, rtol=1e-4)  # float32 there
        np.testing.assert_allclose(made.peaks, peaks, rtol=1e-4)
        np.testing.assert_allclose(made.reap, added / np.maximum(counts, 1), rtol=1e-4)
        assert made.frequency.sum() == pytest.approx(1)
