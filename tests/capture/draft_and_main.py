"""A small main model, and its draft layer captured."""

from typing import Any

from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from ascendfx.ir.capture.capture_module import capture_module
from tests.capture.tiny_models import random_weights, tiny_latent


def make_main(**changes: Any) -> Any:
    config = DeepseekV3Config(
        **tiny_latent(
            num_hidden_layers=1,
            num_attention_heads=2,
            num_key_value_heads=2,
            n_group=2,
            topk_group=1,
            num_experts_per_tok=2,
            **changes,
        )
    )
    main: Any = random_weights(DeepseekV3ForCausalLM(config), 1)
    # The loop over experts, which cannot be exported: captured in the other form all the same.
    main.set_experts_implementation("eager")
    return main


MAIN = make_main()
CAPTURED = capture_module(MAIN)
