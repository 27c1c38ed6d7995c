"""Row c of the rewriting issue: right spellings are recognised, near misses are left alone.

Both must still compute what PyTorch computes in float64.
"""

from collections import Counter
from dataclasses import replace

import numpy as np
import pytest
import torch

from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import RAISE
from tests.capture.eager_float64 import assert_equals_eager
from tests.passes.spellings import attentions, rms_norms, rotaries, routers, swiglus
from tests.passes.spellings.spelling import Around, Spelling

_KINDS = (attentions, rms_norms, rotaries, routers, swiglus)
RIGHT = {f"{s.operation}-{name}": s for kind in _KINDS for name, s in kind.RIGHT.items()}
NEAR = {f"{s.operation}-{name}": s for kind in _KINDS for name, s in kind.NEAR.items()}

IDS = np.array([[3, 1, 4, 1, 5, 9], [2, 6, 5, 3, 5, 8]])


def found(spelling: Spelling) -> Counter[str]:
    """Raise the spelling, compare it with PyTorch, and count its operations."""
    torch.manual_seed(5)
    model = Around(spelling.body)
    captured = capture_module(model)
    raised, _ = run_pipeline(captured.program, RAISE)
    assert_equals_eager(replace(captured, program=raised), model, IDS)
    return Counter(node.op.mnemonic for graph in raised.graphs for node in graph.nodes)


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_spelling_is_recognised(name: str) -> None:
    assert found(RIGHT[name])[RIGHT[name].operation] == RIGHT[name].count


@pytest.mark.parametrize("name", NEAR)
def test_a_near_miss_is_left_alone(name: str) -> None:
    assert found(NEAR[name])[NEAR[name].operation] == 0


def test_the_suite_is_as_large_as_it_says() -> None:
    assert len(RIGHT) >= 30
    assert len(NEAR) >= 60
    assert len({s.body for s in (*RIGHT.values(), *NEAR.values())}) == len(RIGHT) + len(NEAR)
