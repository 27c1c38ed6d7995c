"""What layers saw is what the interpreter multiplies; nothing more is read or kept."""

from collections import Counter
from functools import cache
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call, GroupedLinear
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.passes.random_weights import random_weights
from ascendfx.quant_passes.calibration.expert_tokens import ExpertTokens, expert_tokens
from ascendfx.quant_passes.calibration.gathered_rows import Collected, GatheredRows
from ascendfx.quant_passes.calibration.row_store import RowStore, StoredRows
from ascendfx.quant_passes.calibration.statistics_by_layer import (
    LayerStatistics,
    statistics_by_layer,
)
from ascendfx.quant_passes.insertion.sites import sites_of, weight_of
from ascendfx.quant_passes.statistics import merged, statistics_of
from tests.passes.captured_models import raised

MODEL = "v3yarn_f32"
HEAD = "lm_head.weight"


@cache
def weights() -> dict[str, Array]:
    found = random_weights(raised(MODEL), 3)
    return {key: array.astype(np.float32) for key, array in found.items()}


@cache
def windows() -> NDArray[np.int64]:
    rows = len(weights()["model.embed_tokens.weight"])
    return np.random.default_rng(5).integers(0, rows, (5, 7))


@cache
def truth() -> dict[str, tuple[Array, ...]]:
    """Return the rows that each weight is multiplied by, of stacked experts those of each."""
    program = raised(MODEL)
    found: dict[str, tuple[Array, ...]] = {}
    seen: dict[str, dict[int, tuple[Array, ...]]] = {}

    def observe(graph: Graph, position: int, results: tuple[Array, ...]) -> None:
        seen.setdefault(graph.name, {})[position] = results
        op = graph.nodes[position].op
        if graph is program.main:
            if isinstance(op, Call):
                note(program.by_name[op.callee], op)
            elif weight_of(graph, graph.nodes[position]):
                note(graph, None)

    def note(graph: Graph, call: Call | None) -> None:
        for node in graph.nodes:
            parameter = weight_of(graph, node)
            if parameter is None:
                continue
            values = [seen[graph.name][v.node][v.result] for v in node.operands]
            rows = values[0].reshape(-1, values[0].shape[-1])
            split = np.split(rows, values[2])[:-1] if isinstance(node.op, GroupedLinear) else [rows]
            found[call.key_of(parameter.name) if call else parameter.name] = tuple(split)

    interpret(program, {**weights(), "token_ids": windows()}, observe=observe)
    return found


def everything(_key: str) -> Collected:
    return Collected(moments=True, keep=2)


def layers(**options: Any) -> list[LayerStatistics]:
    source = ArraySource(weights())
    wanted = options.pop("wanted", everything)
    return list(statistics_by_layer(raised(MODEL), source, windows(), wanted, **options))


@pytest.mark.parametrize("at_once", [2, 8])
def test_statistics_are_those_of_what_is_multiplied(at_once: int) -> None:
    found = {key: (layer, key) for layer in layers(at_once=at_once) for key in layer.rows}
    assert set(found) == set(truth()) == {site.key for site in sites_of(raised(MODEL))}
    stacked = 0
    for key, experts in truth().items():
        layer = found[key][0]
        assert layer.token_counts(key) == tuple(map(len, experts))
        stacked += len(experts) > 1
        for number, rows in enumerate(experts):
            mine, true = layer.of(key, number), statistics_of(rows)
            assert mine.tokens == true.tokens
            assert mine.moments is not None
            assert true.moments is not None
            largest = max(1.0, float(np.abs(true.moments).max(initial=0)))
            np.testing.assert_allclose(mine.moments, true.moments, atol=1e-4 * largest)
            np.testing.assert_allclose(mine.absmax, true.absmax, rtol=1e-3, atol=1e-4)
            np.testing.assert_allclose(mine.mean_abs, true.mean_abs, rtol=1e-3, atol=1e-4)
    assert stacked


def test_layers_come_in_order_and_the_entry_last() -> None:
    numbers = [sorted({key.split(".")[2] for key in layer.rows}) for layer in layers()[:-1]]
    assert numbers == [[str(i)] for i in range(len(numbers))]
    assert list(layers()[-1].rows) == [HEAD]


class Counted(ArraySource):
    """Counts what is read."""

    read: Counter[str]

    def __init__(self, tensors: dict[str, Array]) -> None:
        super().__init__(tensors)
        object.__setattr__(self, "read", Counter[str]())

    def load(self, key: str) -> NDArray[Any]:
        self.read[key] += 1
        return super().load(key)


def test_a_weight_is_read_once_and_the_head_never() -> None:
    source = Counted(weights())
    run = statistics_by_layer(raised(MODEL), source, windows(), everything, at_once=2)
    first = next(run)
    assert all(
        key in first.rows or "layers.0." in key or "layers." not in key for key in source.read
    )
    list(run)
    assert set(source.read.values()) == {1}
    assert HEAD not in source.read


def test_only_what_is_wanted_is_collected() -> None:
    def wanted(key: str) -> Collected | None:
        return Collected() if "o_proj" in key else None

    found = layers(wanted=wanted)
    assert {key.rpartition(".self_attn.")[2] for layer in found for key in layer.rows} == {
        "o_proj.weight"
    }
    statistics = found[0].of("model.layers.0.self_attn.o_proj.weight")
    assert statistics.tokens == windows().size
    assert not statistics.has("moments")
    assert not statistics.has("inputs")


def test_weights_that_read_the_same_inputs_share_the_rows() -> None:
    rows = layers()[0].rows
    one, other = (
        rows[f"model.layers.0.self_attn.{name}.weight"]
        for name in ("q_a_proj", "kv_a_proj_with_mqa")
    )
    assert one[0] is other[0]


def test_tokens_of_experts_are_told() -> None:
    (first, *_) = expert_tokens(layers())
    assert sum(first.counts) > windows().size
    told = str(ExpertTokens("w", (3, 0, 9, 0)))
    assert told == "w: 0 to 9 tokens, median 1.5; none: 2 (1, 3)"
    assert str(ExpertTokens("w", (3, 5))) == "w: 3 to 5 tokens, median 4"


@pytest.mark.parametrize("expert", [True, False])
@pytest.mark.parametrize("most", [0, 1 << 20])
@pytest.mark.parametrize("moments", [True, False])
def test_statistics_are_the_same_wherever_rows_wait(
    moments: bool,  # noqa: FBT001
    most: int,
    expert: bool,  # noqa: FBT001
) -> None:
    random = np.random.default_rng(1)
    parts = [random.standard_normal((n, 4)).astype(np.float32) for n in (3, 0, 9, 5)]
    store = RowStore(most)
    wanted = Collected(moments, 1)
    gathered = GatheredRows(4, wanted, store, expert=expert)
    for part in parts:
        gathered.add(part)
    rows = np.concatenate(parts)
    found, true = gathered.statistics(), statistics_of(rows)
    assert found.tokens == gathered.tokens == 17
    np.testing.assert_allclose(found.absmax, true.absmax)
    np.testing.assert_allclose(found.mean_abs, true.mean_abs)
    assert (found.moments is not None) == moments
    if found.moments is not None and true.moments is not None:
        np.testing.assert_allclose(found.moments, true.moments, rtol=1e-5, atol=1e-5)
    without = GatheredRows(4, wanted, store).statistics()
    assert without.tokens == 0
    assert merged(found, without).tokens == 17


def test_rows_beyond_a_limit_wait_in_a_file() -> None:
    store = RowStore(40)
    rows = np.arange(8, dtype=np.float32).reshape(2, 4)
    kept = [store.keep(rows + i) for i in range(3)]
    assert [isinstance(each, StoredRows) for each in kept] == [False, True, True]
    assert store.bytes == rows.nbytes
    for i, each in enumerate(kept):
        read = each.read() if isinstance(each, StoredRows) else each
        np.testing.assert_array_equal(read, rows + i)


def test_rows_that_are_added_up_make_room() -> None:
    store = RowStore()
    gathered = GatheredRows(4, Collected(moments=True), store)
    gathered.add(np.ones((3, 4), np.float32))
    assert store.bytes == 48
    gathered.add(np.ones((2, 4), np.float32))
    assert store.bytes == 0
    expert = GatheredRows(4, Collected(moments=True), store, expert=True)
    for _ in range(3):
        expert.add(np.ones((3, 4), np.float32))
    assert store.bytes == 144


def test_weights_see_what_those_before_have_become() -> None:
    """Replaced by themselves weights see the same; by zeros, those behind see zeros."""
    old = {key: layer.of(key) for layer in layers() for key in layer.rows if "layers.0." in key}
    made: dict[str, float] = {}

    def replaced(key: str, expert: int) -> Array | None:
        if key not in made:
            return None
        whole = weights()[key] * made[key]
        return whole if whole.ndim == 2 else whole[expert]

    for factor in (1.0, 0.0):
        made.clear()
        order: list[list[str]] = []
        run = statistics_by_layer(
            raised(MODEL), ArraySource(weights()), windows(), everything, replaced=replaced
        )
        for layer in run:
            order.append([key.rpartition(".layers.0.")[2] for key in layer.rows])
            for key in layer.rows:
                if key in old and factor:
                    np.testing.assert_allclose(layer.of(key).absmax, old[key].absmax, rtol=1e-4)
                if key.endswith("layers.0.self_attn.o_proj.weight") and not factor:
                    assert not layer.of(key).absmax.any()
                made[key] = factor
            if len(order) == 5:
                break
        assert {"self_attn.q_a_proj.weight", "self_attn.kv_a_proj_with_mqa.weight"} <= set(order[0])
        assert {"self_attn.q_b_proj.weight", "self_attn.kv_b_proj.weight"} == set(order[1])
        assert order[2] == ["self_attn.o_proj.weight"]


def test_an_overflow_is_told() -> None:
    gathered = GatheredRows(2, Collected(), RowStore())
    with pytest.raises(GraphError, match="values-not-finite"):
        gathered.add(np.array([[1, np.inf]], np.float32))
