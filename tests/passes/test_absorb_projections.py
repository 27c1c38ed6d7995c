"""The absorbed decode form computes what the plain forward computes, and expands nothing."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.ops import HeadLinear, Linear, RaggedAttention
from ascendfx.ir.program import Program
from ascendfx.passes.absorb_projections import AbsorbProjections
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.serving_steps import ServingSteps
from ascendfx.passes.share_common import ShareCommon
from tests.passes.load_program import load
from tests.passes.serving_steps import BLOCK, full_logits

PLAIN = load("latent_attention")


def absorbed() -> Program:
    serving = DeriveIncrementalForm(block_tokens=BLOCK).run(PLAIN).program
    result = FoldWeights().run(AbsorbProjections().run(serving).program)
    return ShareCommon().run(result.program).program


def test_both_projections_are_absorbed() -> None:
    serving = DeriveIncrementalForm(block_tokens=BLOCK).run(PLAIN).program
    statistics = AbsorbProjections().run(serving).statistics
    assert statistics["absorb-key-projection-2"] == 1
    assert statistics["absorb-value-projection-2"] == 1


def test_no_projection_of_the_context_is_left() -> None:
    layer = absorbed().graphs[1]
    for node in layer.nodes:
        if isinstance(node.op, Linear | HeadLinear):
            assert "context" not in node.types[0].names
    (attention,) = [node for node in layer.nodes if isinstance(node.op, RaggedAttention)]
    # One latent head serves as keys of part one and as values.
    assert attention.operands[2] == attention.operands[4]


@given(data=st.data())
@settings(max_examples=20)
def test_absorbed_steps_equal_the_full_forward(data: st.DataObject) -> None:
    weights = random_weights(PLAIN, seed=5)
    ids = [data.draw(st.lists(st.integers(0, 10), min_size=2, max_size=9)) for _ in range(2)]
    serving = ServingSteps(absorbed(), weights, 2)
    first = [data.draw(st.integers(1, len(each) - 1)) for each in ids]
    serving.step([each[:n] for each, n in zip(ids, first, strict=True)])
    logits = serving.step([each[n:] for each, n in zip(ids, first, strict=True)])
    for row, each in enumerate(ids):
        # As in test_derive_incremental_form: float64 sums of at most 64 terms of size one.
        truth = full_logits(PLAIN, weights, each)[-1]
        np.testing.assert_allclose(logits[row], truth, rtol=0, atol=64 * 2e-15)
