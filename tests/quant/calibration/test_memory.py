"""What calibration holds: one layer as it is stored, its activations, moments of one weight."""

import tracemalloc
from collections.abc import Generator

import numpy as np
import pytest
from ml_dtypes import bfloat16

from ascendfx.ir.op import Array
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.ir.text.parser import parse_program
from ascendfx.quant_passes.calibration import layer_walk
from ascendfx.quant_passes.calibration.gathered_rows import Collected
from ascendfx.quant_passes.calibration.row_store import RowStore
from ascendfx.quant_passes.calibration.statistics_by_layer import (
    LayerStatistics,
    statistics_by_layer,
)

HIDDEN, EXPERTS, WINDOWS, LENGTH, CHOSEN = 256, 32, 16, 64, 4
TOKENS = WINDOWS * LENGTH
ACTIVATIONS = 4 * TOKENS * HIDDEN
LAYER = 2 * EXPERTS * HIDDEN**2
MOMENTS = 8 * HIDDEN**2
KEPT = 1 << 18
PROGRAM = f"""
graph @main {{
  %0 = param "embed" : bf16[32, {HIDDEN}]
  %1 = param "head" : bf16[32, {HIDDEN}]
  %2 = input "token_ids" : i64[batch, tokens]
  %3 = gather_rows %0, %2 : bf16[batch, tokens, {HIDDEN}]
  %4 = call %3 {{callee="layer", keys=[["gate", "0.gate"], ["bias", "0.bias"], ["up", "0.up"]]}} \
: bf16[batch, tokens, {HIDDEN}]
  %5 = linear %4, %1 : bf16[batch, tokens, 32]
  return %5
}}

graph @layer {{
  %0 = input "x0" : bf16[batch, tokens, {HIDDEN}]
  %1 = reshape %0 {{shape=[<batch*tokens>, {HIDDEN}]}} : bf16[batch*tokens, {HIDDEN}]
  %2 = cast %1 {{dtype=f32}} : f32[batch*tokens, {HIDDEN}]
  %3 = param "gate" : f32[{EXPERTS}, {HIDDEN}]
  %4 = linear %2, %3 : f32[batch*tokens, {EXPERTS}]
  %5 = param "bias" : f32[{EXPERTS}]
  %6 = route_topk %4, %5 {{k={CHOSEN}, scoring="sigmoid", biased=true, groups=4, topk_groups=2, \
group_score="top2_sum", masked_value=-inf, normalize=true, scale=2.5}} \
: f32[batch*tokens, {CHOSEN}], i64[batch*tokens, {CHOSEN}]
  %7 = dispatch_experts %6.1 {{experts={EXPERTS}}} \
: i32[{CHOSEN}*batch*tokens], i32[{CHOSEN}*batch*tokens], i32[{EXPERTS}]
  %8 = gather_rows %1, %7 : bf16[{CHOSEN}*batch*tokens, {HIDDEN}]
  %9 = param "up" : bf16[{EXPERTS}, {HIDDEN}, {HIDDEN}]
  %10 = grouped_linear %8, %9, %7.2 : bf16[{CHOSEN}*batch*tokens, {HIDDEN}]
  %11 = combine_experts %10, %7.1, %6 : bf16[batch*tokens, {HIDDEN}]
  %12 = reshape %11 {{shape=[<batch>, <tokens>, {HIDDEN}]}} : bf16[batch, tokens, {HIDDEN}]
  return %12
}}
"""


def weights() -> dict[str, Array]:
    random = np.random.default_rng(2)
    shapes = {"embed": (32, HIDDEN), "head": (32, HIDDEN), "0.up": (EXPERTS, HIDDEN, HIDDEN)}
    found = {key: random.standard_normal(shape) / 16 for key, shape in shapes.items()}
    made: dict[str, Array] = {key: array.astype(bfloat16) for key, array in found.items()}
    gate = random.standard_normal((EXPERTS, HIDDEN)).astype(np.float32)
    return made | {"0.gate": gate, "0.bias": np.zeros(EXPERTS, np.float32)}


class Loaded(ArraySource):
    """Gives copies, as files do."""

    def load(self, key: str) -> Array:
        return super().load(key).copy()


@pytest.mark.parametrize("replace", [False, True])
def test_a_layer_is_held_once_and_moments_one_by_one(
    monkeypatch: pytest.MonkeyPatch,
    replace: bool,  # noqa: FBT001
) -> None:
    monkeypatch.setattr(layer_walk, "RowStore", lambda: RowStore(KEPT))
    program, held = parse_program(PROGRAM), Loaded(weights())
    windows = np.random.default_rng(1).integers(0, 32, (WINDOWS, LENGTH))
    replaced = (lambda _key, _expert: None) if replace else None

    def run() -> Generator[LayerStatistics]:
        return statistics_by_layer(program, held, windows, wanted, replaced=replaced, at_once=1)

    next(run()).of("0.up")  # what is imported late is no part of it
    tracemalloc.start()
    try:
        walk = run()
        found = next(walk)
        known, most = tracemalloc.get_traced_memory()
        tracemalloc.reset_peak()
        for expert in range(EXPERTS):
            found.of("0.up", expert)
        later = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert sum(found.token_counts("0.up")) == TOKENS * CHOSEN
    waiting = CHOSEN * ACTIVATIONS if replace else 0  # rows for the next level
    assert most <= LAYER + 3 * ACTIVATIONS + waiting + KEPT
    assert known <= 2 * ACTIVATIONS + waiting + 2 * KEPT
    rows = 4 * HIDDEN * max(found.token_counts("0.up"))
    assert later - known <= 2 * MOMENTS + 6 * rows < EXPERTS * MOMENTS / 2
    walk.close()


def wanted(key: str) -> Collected | None:
    return Collected(moments=True) if key == "0.up" else None
