"""Row d of the main job: any small DeepSeek, prefill and decode by its kernels, is right.

The truth is the plain forward of the captured model in float64. The bound is that of
``tests/lowering/rounding_noise.py``: every operation of the serving programs errs at random by as
much as its own bound allows.
"""

from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import numpy as np
import pytest
import torch
from hypothesis import HealthCheck, Phase, given, note, reject, settings
from hypothesis import strategies as st
from transformers import DeepseekV2Config, DeepseekV3Config, PretrainedConfig

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.runtime import compile_model as compiler
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.start_engine import start_engine
from tests.lowering.rounding_noise import ExpertsTooCloseError
from tests.models.full_forward import true_logits
from tests.models.random_checkpoint import random_model
from tests.models.random_config import v2_configs, v3_configs
from tests.models.random_steps import LIMITS, Logits, rounding, serve, texts

# A failing example is reported as it is: every smaller one would need its own kernels.
PHASES = (Phase.explicit, Phase.generate)
DRAWN = {"phases": PHASES, "suppress_health_check": list(HealthCheck)}

LIMIT = 1.25
"""Largest ratio of our error in bfloat16 to that of transformers."""

every_family = pytest.mark.parametrize("configs", [v2_configs(), v3_configs()], ids=["v2", "v3"])


def compile_captured(captured: CapturedModel) -> CompiledModel:
    """Compile without capturing a second time."""
    with patch.object(compiler, "capture_model", lambda *_, **__: captured):
        return compiler.compile_model(None, limits=LIMITS)


@pytest.fixture
def tally() -> Iterator[Counter[str]]:
    """Count configurations of one test, and see to it that most of them were compared."""
    counted = Counter[str]()
    yield counted
    assert counted["compared"] > counted["rejected"], counted


def check(config: PretrainedConfig, tally: Counter[str], kernel_cache: Path | None = None) -> None:
    note(f"{type(config).__name__} {config.to_diff_dict()}")
    captured = capture_model(random_model(config, seed=0))
    compiled = compile_captured(captured)
    given_texts = texts(captured.facts.vocabulary)
    wanted = [true_logits(captured, [text])[0] for text in given_texts]
    try:
        bounds = [
            bound(compiled, captured, text, truth)
            for text, truth in zip(given_texts, wanted, strict=True)
        ]
    except ExpertsTooCloseError:
        tally["rejected"] += 1
        reject()
    tally["compared"] += 1
    observed = serve(start_engine(compiled, kernel_cache=kernel_cache).executor, given_texts)
    for truth, seen, limit in zip(wanted, observed, bounds, strict=True):
        error = np.abs(np.stack(seen.logits) - truth[seen.positions]).max()
        note(f"error {error:.2e}, bound {limit:.2e}")
        assert error <= limit


def check_bfloat16(config: PretrainedConfig, kernel_cache: Path | None = None) -> None:
    """Compare with transformers: worst cases in bfloat16 are as large as the logits."""
    note(f"{type(config).__name__} {config.to_diff_dict()}")
    model = random_model(config, seed=0, dtype=torch.bfloat16)
    captured = capture_model(model)
    given_texts = texts(captured.facts.vocabulary)
    engine = start_engine(compile_captured(captured), kernel_cache=kernel_cache)
    kernels, eager = [], []
    for text, seen in zip(given_texts, serve(engine.executor, given_texts), strict=True):
        truth = true_logits(captured, [text])[0]
        kernels.append(np.stack(seen.logits) - truth[seen.positions])
        with torch.inference_mode():
            eager.append(model(torch.tensor([text])).logits[0].double().numpy() - truth)
    ours, theirs = (float(np.sqrt((np.concatenate(e) ** 2).mean())) for e in (kernels, eager))
    note(f"error {ours:.2e}, of transformers {theirs:.2e}, ratio {ours / theirs:.2f}")
    assert ours <= LIMIT * theirs


def bound(
    compiled: CompiledModel, captured: CapturedModel, text: tuple[int, ...], truth: Logits
) -> float:
    """Return how far the kernels' logits may be from the truth.

    Also checks that both serving programs mean the truth, up to the rounding of float64: by its
    unit, 2^29 times smaller than that of float32, the bound is smaller, too.
    """
    positions = range(len(text) - 1, 0, -max(1, len(text) // 6))
    largest = 0.0
    for program in compiled.programs.values():
        exact, limit = rounding(program, TensorsByKey(captured.source), text, list(positions))
        np.testing.assert_allclose(exact, truth[list(positions)], rtol=0, atol=limit * 2**-20)
        largest = max(largest, limit)
    return largest


@every_family
@given(data=st.data())
@settings(max_examples=3, **DRAWN)
def test_prefill_and_decode_equal_the_full_forward(
    configs: st.SearchStrategy[PretrainedConfig], data: st.DataObject, tally: Counter[str]
) -> None:
    check(data.draw(configs), tally)


ODD = {
    "vocab_size": 43,
    "hidden_size": 24,
    "intermediate_size": 24,
    "num_hidden_layers": 1,
    "first_k_dense_replace": 0,
    "num_attention_heads": 1,
    "num_key_value_heads": 1,
    "kv_lora_rank": 32,
    "q_lora_rank": None,
    "qk_nope_head_dim": 8,
    "qk_rope_head_dim": 8,
    "v_head_dim": 8,
    "n_shared_experts": 1,
    "moe_intermediate_size": 16,
    "num_experts_per_tok": 1,
    "topk_group": 1,
}
"""One expert per token, a latent wider than the hidden state and than all keys and values."""


@pytest.mark.parametrize(
    "configs",
    [
        st.just(
            DeepseekV2Config(
                **ODD, n_routed_experts=3, n_group=3, topk_method="group_limited_greedy"
            )
        ),
        st.just(DeepseekV3Config(**ODD, n_routed_experts=4, n_group=2)),
    ],
    ids=["v2-groups-of-one", "v3"],
)
@given(data=st.data())
@settings(max_examples=1, **DRAWN)
def test_odd_shapes_are_served(
    configs: st.SearchStrategy[PretrainedConfig], data: st.DataObject, tally: Counter[str]
) -> None:
    check(data.draw(configs), tally)


@given(config=v2_configs(torch.bfloat16) | v3_configs(torch.bfloat16))
@settings(max_examples=1, **DRAWN)
def test_in_bfloat16_kernels_err_at_most_a_quarter_more_than_transformers(
    config: PretrainedConfig,
) -> None:
    check_bfloat16(config)


@pytest.fixture(scope="session")
def passing_cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a kernel cache for kernels that no later run will ask for again."""
    return tmp_path_factory.mktemp("kernels")


@pytest.mark.nightly
@every_family
@given(data=st.data())
@settings(max_examples=20, derandomize=False, **DRAWN)
def test_prefill_and_decode_equal_the_full_forward_for_many_configs(
    configs: st.SearchStrategy[PretrainedConfig],
    data: st.DataObject,
    passing_cache: Path,
    tally: Counter[str],
) -> None:
    check(data.draw(configs), tally, passing_cache)


@pytest.mark.nightly
@given(config=v2_configs(torch.bfloat16) | v3_configs(torch.bfloat16))
@settings(max_examples=10, derandomize=False, **DRAWN)
def test_in_bfloat16_kernels_err_at_most_a_quarter_more_for_many_configs(
    config: PretrainedConfig, passing_cache: Path
) -> None:
    check_bfloat16(config, passing_cache)
