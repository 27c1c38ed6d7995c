"""Row c of the main job: what the minimum cut caches, per token and layer."""

import json
from math import prod

import pytest
from transformers import DeepseekV2Config, DeepseekV3Config, LlamaConfig, PretrainedConfig

import ascendfx
from ascendfx.codegen.ascendc.launch_plan import Place
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.program import Program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.presets import TO_SERVING
from tests.models.random_checkpoint import random_model

LAYERS = 2
SMALL = {
    "hidden_size": 64,
    "intermediate_size": 96,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": 4,
    "vocab_size": 80,
}
LATENT = {
    **SMALL,
    "num_key_value_heads": 4,
    "kv_lora_rank": 24,
    "qk_nope_head_dim": 16,
    "qk_rope_head_dim": 8,
    "v_head_dim": 16,
    "n_routed_experts": 8,
    "num_experts_per_tok": 2,
    "moe_intermediate_size": 32,
    "first_k_dense_replace": 1,
    "n_group": 4,
    "topk_group": 2,
}


def entries(program: Program) -> dict[int, list[int]]:
    """Return the values per token in each cache of each layer, sorted."""
    found: dict[int, list[int]] = {}
    for name, kind in program.main.input_types.items():
        if name.startswith("cache."):
            _, layer, _ = name.split(".")
            found.setdefault(int(layer), []).append(prod(int(size) for size in kind.shape[2:]))
    return {layer: sorted(sizes) for layer, sizes in found.items()}


def cached_by(config: PretrainedConfig) -> dict[int, list[int]]:
    program = capture_model(random_model(config, seed=0)).program
    serving, _ = run_pipeline(program, TO_SERVING)
    return entries(serving)


def test_the_bundled_model_caches_the_latent_and_the_rotated_key(engine_f32: Engine) -> None:
    compiled = engine_f32.compiled
    assert compiled
    for name, plan in compiled.plans.items():
        assert entries(compiled.programs[name]) == {layer: [16, 64] for layer in range(5)}
        stored = [
            b.elements // (plan.capacities.blocks * BLOCK_TOKENS)
            for b in plan.of_place(Place.CACHE)
            if b.name != "cache.counts"  # of the tokens of each request, for penalties
        ]
        assert sorted(stored) == [16] * 5 + [64] * 5
    config = json.loads((ascendfx.bundled_model() / "config.json").read_text(encoding="utf-8"))
    assert [config["qk_rope_head_dim"], config["kv_lora_rank"]] == [16, 64]


@pytest.mark.parametrize(
    "config",
    [
        DeepseekV3Config(**LATENT, q_lora_rank=40),
        DeepseekV3Config(**LATENT, q_lora_rank=None),
        DeepseekV2Config(**LATENT, q_lora_rank=None),
    ],
    ids=["v3", "v3-no-query-rank", "v2-no-query-rank"],
)
def test_latent_attention_caches_the_latent_and_the_rotated_key(config: PretrainedConfig) -> None:
    assert cached_by(config) == {layer: [8, 24] for layer in range(LAYERS)}


@pytest.mark.parametrize(
    "size",
    [
        {"kv_lora_rank": 80},
        {"kv_lora_rank": 40, "qk_nope_head_dim": 4, "v_head_dim": 4},
        {"kv_lora_rank": 32, "qk_nope_head_dim": 4, "v_head_dim": 4},
    ],
    ids=["wider-than-hidden", "wider-than-keys-and-values", "as-wide-as-keys-and-values"],
)
def test_a_latent_that_compresses_nothing_is_cached_all_the_same(size: dict[str, int]) -> None:
    config = DeepseekV3Config(**{**LATENT, **size})
    assert cached_by(config) == {layer: [8, size["kv_lora_rank"]] for layer in range(LAYERS)}


@pytest.mark.parametrize("groups", [4, 2, 1], ids=["multi-head", "grouped-query", "multi-query"])
def test_a_llama_caches_keys_and_values(groups: int) -> None:
    config = LlamaConfig(**SMALL, num_key_value_heads=groups)
    assert config.head_dim == 16
    assert cached_by(config) == {layer: [16 * groups] * 2 for layer in range(LAYERS)}
