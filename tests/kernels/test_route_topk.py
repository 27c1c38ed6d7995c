"""Routing against the float64 reference of the graph operation.

With u = 2^-24: exp is off by at most 4 u relatively, a sum or quotient by u, so a sigmoid is off by
6 u and a softmax by (E + 2 d + 14) u, d being the largest distance to the maximum. A selecting
score adds one rounding, a group score two scores. Rows whose candidates differ by less than twice
that without being equal may come out in either order; they are left out, equal ones are not.
Weights that are normalized sum k scores and divide and scale once each.
"""

import math

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.kernels.route_topk import emit_route_topk, plan_route_topk
from ascendfx.codegen.ascendc.kernels.route_topk_plan import (
    GroupScore,
    RouteTopkPlan,
    Routing,
    Scoring,
)
from ascendfx.codegen.ascendc.kernels.vector_kernel import local_bytes
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.ops import RouteTopk
from ascendfx.ir.tensor_type import DType
from tests.golden_file import Golden
from tests.kernels.vector_case import FEW_CORES, TARGET, Array, Floats, launch

_U = DType.F32.unit_roundoff

V3 = Routing(256, 8, Scoring.SIGMOID, bias=True, groups=8, topk_groups=4, normalize=True, scale=2.5)
V2 = Routing(
    160,
    6,
    Scoring.SOFTMAX,
    groups=8,
    topk_groups=3,
    group_score=GroupScore.MAX,
    masked_value=0.0,
    scale=16.0,
)
V2_LITE = Routing(64, 6, Scoring.SOFTMAX)
TINY = Routing(8, 2, Scoring.SIGMOID, bias=True, groups=4, topk_groups=2, normalize=True)
ONE_GROUP_SIZE = Routing(16, 4, Scoring.SIGMOID, normalize=True)
WIDE_GROUPS = Routing(256, 16, Scoring.SIGMOID, bias=True, groups=2, topk_groups=1, normalize=True)
NEGATIVE_BIAS = Routing(
    40, 9, Scoring.SIGMOID, bias=True, groups=4, topk_groups=1, masked_value=0.0, scale=0.5
)
FIVE_LISTS = Routing(160, 7, Scoring.SIGMOID, bias=True, normalize=True)
NINE_LISTS = Routing(
    72, 6, Scoring.SIGMOID, bias=True, groups=9, topk_groups=4, group_score=GroupScore.MAX
)
ODD = Routing(33, 3, Scoring.SOFTMAX, bias=True, normalize=True)
ALL = {
    "v3": V3,
    "v2": V2,
    "v2_lite": V2_LITE,
    "tiny": TINY,
    "one_group": ONE_GROUP_SIZE,
    "wide_groups": WIDE_GROUPS,
    "negative_bias": NEGATIVE_BIAS,
    "odd": ODD,
    "five_lists": FIVE_LISTS,
    "nine_lists": NINE_LISTS,
}


def _plan(routing: Routing, capacity: int, target: Target = TARGET) -> RouteTopkPlan:
    return plan_route_topk(rows=DeviceSize(0, capacity), routing=routing, target=target)


def _operation(routing: Routing) -> RouteTopk:
    return RouteTopk(
        routing.top_k,
        routing.scoring.value,
        routing.bias,
        routing.groups,
        routing.topk_groups,
        routing.group_score.value,
        routing.masked_value,
        routing.normalize,
        routing.scale,
    )


def _operands(routing: Routing, rows: int) -> tuple[Array, Array]:
    """Return logits on a coarse grid, so that equal scores occur, and biases."""
    random = np.random.default_rng(routing.experts)
    logits = random.integers(-24, 24, (rows, routing.experts)) / 8
    bias = random.integers(-24, 4, routing.experts) / 16
    return logits.astype(np.float32), bias.astype(np.float32)


def _score_error(routing: Routing, logits: Floats) -> float:
    if routing.scoring is Scoring.SIGMOID:
        return 6 * _U
    return (routing.experts + 2 * np.ptp(logits) + 14) * _U


def _clear_rows(routing: Routing, logits: Floats, bias: Floats) -> Array:
    """Return which rows have no two different candidates too close to tell apart."""
    if routing.scoring is Scoring.SIGMOID:
        scores = 1 / (1 + np.exp(-logits))
    else:
        scores = np.exp(logits - logits.max(axis=1, keepdims=True))
        scores /= scores.sum(axis=1, keepdims=True)
    choice = scores + bias if routing.bias else scores
    error = _score_error(routing, logits) * scores + _U * np.abs(choice)
    error = np.maximum(error.max(axis=1, keepdims=True) * routing.bias, error)
    grouped = np.sort(choice.reshape(len(choice), routing.groups, -1), axis=-1)
    used = 2 if routing.group_score is GroupScore.TOP2_SUM else 1
    group = grouped[..., -used:].sum(axis=-1)
    worst = np.broadcast_to(2 * error.max(axis=1, keepdims=True), group.shape)
    masked = np.zeros((len(choice), 1))
    return _apart(np.append(choice, masked, axis=1), np.append(error, masked, axis=1)) & _apart(
        group, worst
    )


def _apart(values: Floats, error: Floats) -> Array:
    """Return which rows have no neighbours that are different but within twice their errors."""
    order = np.argsort(values, axis=1)
    gaps = np.diff(np.take_along_axis(values, order, 1), axis=1)
    limit = 4 * np.take_along_axis(error, order, 1)[:, 1:]
    return ~((gaps > 0) & (gaps < limit)).any(axis=1)


@pytest.mark.parametrize("target", [TARGET, FEW_CORES], ids=["all_cores", "two_cores"])
@pytest.mark.parametrize("name", ALL)
def test_routing_agrees_with_the_operation(name: str, target: Target) -> None:
    routing = ALL[name]
    capacity = 100
    logits, bias = _operands(routing, capacity)
    kernel = emit_route_topk(_plan(routing, capacity, target), "route_topk")
    exact = [logits.astype(np.float64)] + ([bias.astype(np.float64)] if routing.bias else [])
    weights, ids = _operation(routing).reference(*exact)
    clear = _clear_rows(routing, exact[0], bias.astype(np.float64))
    assert clear.mean() > 0.8
    relative = (2 * _score_error(routing, exact[0]) + (routing.top_k + 6) * _U) * 1.01
    for rows in (0, 1, 49, capacity):
        out = launch(kernel, {"logits": logits, "bias": bias}, rows)
        shape = (capacity, routing.top_k)
        found, chosen = out["weights"].reshape(shape), out["ids"].reshape(shape)
        checked = np.flatnonzero(clear[:rows])
        np.testing.assert_array_equal(chosen[checked], ids[checked])
        error = np.abs(found.astype(np.float64) - weights)[checked]
        assert (error <= relative * weights[checked]).all()
        assert (chosen[rows:] == -1).all()
        assert np.isnan(found[rows:]).all()


def test_large_logits_do_not_overflow() -> None:
    kernel = emit_route_topk(_plan(ONE_GROUP_SIZE, 1), "route_topk")
    logits = np.linspace(-200, 200, 16, dtype=np.float32)[None, :]
    out = launch(kernel, {"logits": logits}, 1)
    assert np.isfinite(out["weights"]).all()
    assert out["ids"][0] >= 8


@settings(max_examples=100)
@given(
    group_size=st.integers(2, 32),
    groups=st.integers(1, 8),
    top_k=st.integers(1, 16),
    data=st.data(),
)
def test_every_plan_fits_local_memory(
    group_size: int, groups: int, top_k: int, data: st.DataObject
) -> None:
    topk_groups = data.draw(st.integers(1, groups))
    top_k = min(top_k, topk_groups * group_size)
    routing = Routing(
        group_size * groups, top_k, Scoring.SIGMOID, groups=groups, topk_groups=topk_groups
    )
    plan = _plan(routing, data.draw(st.integers(1, 5_000)))
    assert local_bytes(plan.buffers) <= TARGET.unified_buffer
    assert plan.slots % 32 == 0
    assert plan.kept >= top_k
    assert plan.out_pitch * 4 % 32 == 0


@pytest.mark.parametrize(
    ("changed", "message"),
    [
        ({"experts": 300}, "route-topk: 300 experts, at most 256"),
        ({"top_k": 17}, "route-topk: top_k 17, at most 16"),
        ({"groups": 7}, "route-topk: 256 experts are not 7 equal groups"),
        ({"topk_groups": 9}, "route-topk: topk_groups 9 of 8 groups"),
        ({"groups": 64, "topk_groups": 4}, "route-topk: 64 groups, at most 32"),
        ({"topk_groups": 1, "experts": 32}, "route-topk: top_k 8 of 4 experts that are not masked"),
        ({"masked_value": math.inf}, "route-topk: masked_value inf"),
    ],
)
def test_impossible_routings_are_refused(changed: dict[str, float], message: str) -> None:
    fields = {name: getattr(V3, name) for name in V3.__slots__} | changed
    with pytest.raises(GraphError, match=message):
        _plan(Routing(**fields), 8)


def test_ties_go_to_the_lower_expert_and_group() -> None:
    for routing in (V3, V2, TINY, WIDE_GROUPS):
        kernel = emit_route_topk(_plan(routing, 1), "route_topk")
        zeros = np.zeros(routing.experts, np.float32)
        out = launch(kernel, {"logits": zeros, "bias": zeros}, 1)
        np.testing.assert_array_equal(out["ids"], np.arange(routing.top_k))


@pytest.mark.parametrize("name", ["v3", "v2"])
def test_golden(golden: Golden, name: str) -> None:
    kernel = emit_route_topk(_plan(ALL[name], 512), "route")
    golden.check(f"ascendc/route_topk_{name}.cpp", kernel.source)
