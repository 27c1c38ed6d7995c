"""The serving form computes what the plain forward computes, and caches what the cut says."""

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.serving_steps import ServingSteps
from tests.passes.load_program import PROGRAMS, load
from tests.passes.serving_steps import BLOCK, full_logits, spans

MODELS = ("latent_attention", "grouped_query_attention")


def cache_shapes(program: Program) -> list[str]:
    kinds = program.main.input_types
    return [str(kind) for name, kind in kinds.items() if name.startswith("cache.0.")]


def test_the_cut_of_latent_attention_is_the_normed_latent_and_the_roped_key() -> None:
    result = DeriveIncrementalForm().run(load("latent_attention"))
    assert cache_shapes(result.program) == ["f32[blocks, 128, 6]", "f32[blocks, 128, 1, 2]"]
    assert result.statistics["cached elements per token and layer"] == 6 + 2


def test_the_cut_of_grouped_query_attention_is_keys_and_values() -> None:
    result = DeriveIncrementalForm().run(load("grouped_query_attention"))
    assert result.statistics["cached elements per token and layer"] == 2 * 2 * 4
    # After the rotation for the keys: it is nearer to the consumer than the projection.
    assert cache_shapes(result.program) == ["f32[blocks, 128, 2, 4]"] * 2


@pytest.mark.parametrize("name", MODELS)
@given(data=st.data())
@settings(max_examples=25)
def test_steps_of_any_size_equal_the_full_forward(name: str, data: st.DataObject) -> None:
    plain = load(name)
    weights = random_weights(plain, seed=1)
    pieces = [
        data.draw(st.lists(st.integers(1, 5), min_size=1, max_size=4), label=f"request {r}")
        for r in range(data.draw(st.integers(1, 3), label="requests"))
    ]
    ids = [
        data.draw(st.lists(st.integers(0, 10), min_size=sum(p), max_size=sum(p))) for p in pieces
    ]
    serving = ServingSteps(
        DeriveIncrementalForm(block_tokens=BLOCK).run(plain).program, weights, len(pieces)
    )
    truth = [full_logits(plain, weights, each) for each in ids]
    for turn in range(max(map(len, pieces))):
        active = [r for r in range(len(pieces)) if turn < len(pieces[r])]
        bounds = [spans(pieces[r])[turn] for r in active]
        logits = serving.step(
            [ids[r][a:b] for r, (a, b) in zip(active, bounds, strict=True)], only=active
        )
        for row, (r, (_, stop)) in enumerate(zip(active, bounds, strict=True)):
            # Float64 sums of at most 64 terms of size one; both sides round each differently.
            np.testing.assert_allclose(logits[row], truth[r][stop - 1], rtol=0, atol=64 * 2e-15)


def test_attention_that_is_not_causal_is_refused() -> None:
    text = (PROGRAMS / "latent_attention.ir").read_text(encoding="utf-8")
    program = parse_program(text.replace(", causal=true", ""))
    with pytest.raises(GraphError, match=r"error\[not-causal\]"):
        DeriveIncrementalForm().run(program)


def test_counting_that_is_not_a_position_is_refused() -> None:
    text = (PROGRAMS / "latent_attention.ir").read_text(encoding="utf-8")
    text = text.replace(
        "%4 = iota {size=<tokens>, dtype=f32} : f32[tokens]",
        "%4 = iota {size=<tokens>, dtype=f32, start=1} : f32[tokens]",
    )
    with pytest.raises(GraphError, match=r"error\[token-counting\]"):
        DeriveIncrementalForm().run(parse_program(text))
