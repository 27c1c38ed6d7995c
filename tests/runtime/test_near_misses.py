"""A refused operation comes with what the passes said of its place."""

from typing import Any

import pytest
from transformers import DeepseekV3Config

from ascendfx import GraphError
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.passes.remark import Remark
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.near_misses import near_misses_at, near_misses_noted
from tests.models.random_checkpoint import random_model

REMARKS = (
    Remark("swiglu: two readers", Location("model.py", 7, "layers.0.mlp")),
    Remark("route-topk: too few", Location("model.py", 9, "layers.0.mlp.gate")),
    Remark("route-topk: too few", Location("model.py", 10, "layers.0.mlp.gate")),
    Remark("rms-norm: no gain", Location("model.py", 11, "layers.0.mlp.gate")),
    Remark("@layer_0: search stopped early at 70 nodes"),
)


@pytest.mark.parametrize(
    ("location", "notes"),
    [
        (Location("model.py", 11, "layers.0.mlp.gate"), (REMARKS[3], REMARKS[1])),
        (Location("model.py", 99, "layers.0.mlp.gate"), (REMARKS[1], REMARKS[3])),
        (Location("model.py", 99, "mlp"), ()),
        (Location("model.py", 7), ()),
        (UNKNOWN, ()),
    ],
    ids=["line first", "same module", "end of another name", "without module", "nowhere"],
)
def test_remarks_of_the_line_come_before_those_of_the_module(
    location: Location, notes: tuple[Remark, ...]
) -> None:
    assert near_misses_at(location, REMARKS) == tuple(map(str, notes))


def test_words_of_a_remark_are_no_place() -> None:
    here, there = Location("a at model.py", 7), Location("model.py", 7)
    assert near_misses_at(there, [Remark("x: no", here), Remark("y: not at model.py:7")]) == ()
    assert near_misses_at(here, [Remark("x: no", here)]) == ("x: no at a at model.py:7",)


def test_an_error_with_notes_keeps_them() -> None:
    place = Location("model.py", 11, "layers.0.mlp.gate")
    with pytest.raises(GraphError) as caught, near_misses_noted(REMARKS):
        raise GraphError("no-kernel", "no", place, notes=("mine",))
    assert caught.value.notes == ("mine",)


def test_a_router_that_chooses_beyond_the_kept_groups_says_why_it_is_refused() -> None:
    sizes: dict[str, Any] = {
        "hidden_size": 48,
        "num_hidden_layers": 1,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
        "vocab_size": 43,
        "kv_lora_rank": 24,
        "q_lora_rank": 8,
        "qk_nope_head_dim": 8,
        "qk_rope_head_dim": 8,
        "v_head_dim": 24,
        "first_k_dense_replace": 0,
        "n_routed_experts": 8,
        "n_group": 4,
        "topk_group": 1,
        "num_experts_per_tok": 4,
        "moe_intermediate_size": 16,
    }
    model = random_model(DeepseekV3Config(**sizes), seed=0)
    with pytest.raises(GraphError) as caught:
        compile_model(model, limits=Limits(max_batch=2, max_context=128, prefill_chunk=8))
    assert caught.value.code == "no-kernel"
    assert any(
        note.startswith("route-topk-biased: more experts are chosen than the kept groups have")
        for note in caught.value.notes
    )
