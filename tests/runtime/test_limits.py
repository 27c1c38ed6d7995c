"""Sizes of plans are whole numbers of at least one; remarks on those beyond the model's own."""

import json
from dataclasses import asdict
from inspect import signature

import numpy as np
import pytest
from transformers import LlamaConfig

import ascendfx
from ascendfx.codegen.ascendc.work import StepSizes
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.limits import DEFAULT_LIMITS, Limits
from tests.models.random_checkpoint import random_model


@pytest.mark.parametrize("name", ["max_batch", "max_context", "prefill_chunk", "cache_blocks"])
@pytest.mark.parametrize("value", [0, -1, 2.5, "2", True, [1]])
def test_a_limit_that_is_no_size_is_refused(name: str, value: object) -> None:
    least = 2 if name == "max_context" else 1
    with pytest.raises(
        GraphError, match=rf"error\[bad-limit\]: {name} must be at least {least}, got "
    ):
        Limits(**{name: value})  # pyright: ignore[reportArgumentType]


def test_a_context_holds_a_prompt_and_an_answer() -> None:
    with pytest.raises(GraphError, match=r"max_context must be at least 2, got 1"):
        Limits(max_context=1)
    assert Limits(max_context=2).context == 2


def test_only_the_number_of_blocks_may_be_left_out() -> None:
    assert Limits(max_batch=3, max_context=129, cache_blocks=None).blocks == 6
    with pytest.raises(GraphError, match=r"max_context must be at least 2, got None"):
        Limits(max_context=None)  # pyright: ignore[reportArgumentType]


def test_integers_of_numpy_become_plain_ones() -> None:
    """A plan is written as JSON, which knows no others."""
    assert type(Limits(max_batch=np.int64(2)).max_batch) is int  # pyright: ignore[reportArgumentType]


def test_a_context_beyond_the_one_of_the_model_is_remarked_with_both_numbers() -> None:
    config = LlamaConfig(
        vocab_size=43,
        hidden_size=32,
        intermediate_size=24,
        num_hidden_layers=1,
        num_attention_heads=4,
        max_position_embeddings=1_500,
    )
    model = random_model(config, seed=0)
    fits = compile_model(model, plans=(), limits=Limits(max_context=1_500))
    assert fits.remarks == ()
    (remark,) = compile_model(model, plans=(), limits=Limits(max_context=1_501)).remarks
    assert remark == (
        "max_context is 1,501, LlamaForCausalLM was made for 1,500 tokens "
        "(max_position_embeddings): answers may get worse beyond; max_context=1500 ends texts there"
    )


def test_sizes_by_default_are_those_of_the_public_function() -> None:
    shown = signature(ascendfx.compile).parameters
    assert {name: shown[name].default for name in asdict(DEFAULT_LIMITS)} == asdict(DEFAULT_LIMITS)


def test_a_decode_step_has_a_row_of_each_request_and_a_prefill_step_those_of_one() -> None:
    limits = Limits(max_batch=3, max_context=300, prefill_chunk=40)
    assert limits.step("decode") == StepSizes(3, 3, 300)
    assert limits.step("prefill") == StepSizes(40, 1, 300)


@pytest.mark.parametrize("limits", [Limits(), Limits(draft_tokens=2), Limits(draft_tree=(3, 2))])
def test_recorded_limits_are_read_back(limits: Limits) -> None:
    recorded = limits.recorded()
    assert json.loads(json.dumps(recorded)) == recorded
    assert Limits(**recorded) == limits
