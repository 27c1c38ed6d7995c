"""Details of DeepSeek that public ports got wrong, see the reports named in each test."""

from typing import Any

import numpy as np
import pytest
import torch
from transformers import (
    DeepseekV2Config,
    DeepseekV2ForCausalLM,
    DeepseekV3Config,
    DeepseekV3ForCausalLM,
)

from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.ir.graph import Graph, Value
from ascendfx.ir.ops.constant import Constant
from ascendfx.ir.ops.gather_rows import GatherRows
from ascendfx.ir.ops.select import Select
from ascendfx.ir.ops.sigmoid import Sigmoid
from ascendfx.ir.ops.take_along import TakeAlong
from tests.capture.eager_float64 import assert_equals_eager
from tests.capture.tiny_models import PLAIN, VOCABULARY, random_weights, tiny_latent, yarn


def v3(**changes: Any) -> DeepseekV3ForCausalLM:
    options = {
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "n_group": 4,
        "topk_group": 2,
        "num_experts_per_tok": 3,
        "rope_parameters": PLAIN,
    }
    model = DeepseekV3ForCausalLM(DeepseekV3Config(**tiny_latent(**(options | changes))))
    return random_weights(model, 0)  # pyright: ignore[reportReturnType]


def v2(**changes: Any) -> DeepseekV2ForCausalLM:
    options = {
        "num_hidden_layers": 2,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "n_group": 4,
        "topk_group": 2,
        "num_experts_per_tok": 3,
        "topk_method": "group_limited_greedy",
        "q_lora_rank": None,
    }
    model = DeepseekV2ForCausalLM(DeepseekV2Config(**tiny_latent(**(options | changes))))
    return random_weights(model, 0)  # pyright: ignore[reportReturnType]


def ids(batch: int, tokens: int) -> np.ndarray:
    return np.random.default_rng(0).integers(0, VOCABULARY, (batch, tokens))


def fill_values(graph: Graph) -> set[float]:
    """The constants that `select` puts where a condition does not hold or holds."""
    return {
        op.value
        for node in graph.nodes
        if isinstance(node.op, Select)
        for operand in node.operands[1:]
        if isinstance(op := graph.op_of(operand), Constant)
    }


def test_v3_masks_other_groups_with_minus_infinity() -> None:
    """transformers#45440, vllm#13474: with 0.0, a masked expert beats a negative biased score."""
    model = v3()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.copy_(torch.linspace(-5, -2, 8))
    captured = capture_module(model)
    assert -float("inf") in fill_values(captured.program.graphs[-1])
    assert_equals_eager(captured, model, ids(2, 7))


def test_v2_masks_other_groups_with_zero() -> None:
    model = v2()
    captured = capture_module(model)
    assert 0.0 in fill_values(captured.program.graphs[-1])
    assert -float("inf") not in fill_values(captured.program.graphs[-1])
    assert_equals_eager(captured, model, ids(2, 7))


def test_v3_weights_experts_by_their_unbiased_scores() -> None:
    """transformers#41647, vllm#12002: the bias selects, it does not weigh."""
    model = v3()
    with torch.no_grad():
        for name, buffer in model.named_buffers():
            if name.endswith("e_score_correction_bias"):
                buffer.normal_(0, 3)
    captured = capture_module(model)
    graph = captured.program.graphs[-1]
    gathered = [node.operands[0] for node in graph.nodes if isinstance(node.op, TakeAlong)]
    assert [type(graph.op_of(value)) for value in gathered] == [Sigmoid]
    assert_equals_eager(captured, model, ids(2, 7))


@pytest.mark.parametrize("scales", [(1.0, 1.0), (0.707, 0.707), (0.707, 1.0)])
@pytest.mark.parametrize("build", [v2, v3])
def test_yarn_is_right_far_behind_the_training_length(
    build: Any, scales: tuple[float, float]
) -> None:
    """transformers#47435: a wrong factor is invisible at position 0 and grows."""
    model = build(rope_parameters=yarn(*scales), num_hidden_layers=1)  # the first is dense
    assert_equals_eager(capture_module(model), model, ids(1, 300))


def test_every_token_is_routed_whatever_the_sample_hit() -> None:
    """DeepSeek-V3#374, transformers#46929: only the experts that a sample hit would survive."""
    model = v3()
    captured = capture_module(model)
    graph = captured.program.graphs[-1]
    rows = [
        graph.type_of(Value(i)) for i, n in enumerate(graph.nodes) if isinstance(n.op, GatherRows)
    ]
    assert all("batch" in type_.names and "tokens" in type_.names for type_ in rows)
    assert_equals_eager(captured, model, ids(3, 19))


def test_the_loop_over_experts_is_not_what_is_captured() -> None:
    """The form is chosen through the public hook, and put back."""
    model = v3()
    model.set_experts_implementation("eager")
    model.set_attn_implementation("sdpa")
    captured = capture_module(model)
    assert model.config._experts_implementation == "eager"
    assert model.config._attn_implementation == "sdpa"
    assert_equals_eager(captured, model, ids(2, 5))
