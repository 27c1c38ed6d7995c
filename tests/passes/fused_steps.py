"""Small steps with fused draft layers, as text and as programs."""

from functools import cache
from typing import Any

from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from ascendfx.ir.capture.capture_draft import capture_draft
from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.ir.program import Program
from ascendfx.passes.drop_placeholders import DropPlaceholders
from ascendfx.passes.gather_earlier import GatherEarlier
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.presets import DECODE, PREFILL, TO_SERVING, closing_passes, serving_passes
from tests.capture.tiny_models import random_weights, tiny_latent
from tests.passes.draft_modules import HIDDEN, VOCABULARY, deepseek_draft

_PLANS = {"decode": DECODE, "prefill": PREFILL}


def small_config() -> DeepseekV3Config:
    """Return the configuration of a main model of one layer."""
    changes: dict[str, Any] = {
        "num_hidden_layers": 1,
        "hidden_size": HIDDEN,
        "vocab_size": VOCABULARY,
        "num_attention_heads": 2,
        "num_key_value_heads": 2,
    }
    return DeepseekV3Config(**tiny_latent(**changes))


@cache
def serving_forms() -> tuple[Program, Program]:
    """Return the main model and its draft layer in serving form."""
    main = random_weights(DeepseekV3ForCausalLM(small_config()), 1)
    captured = capture_draft(deepseek_draft(), main, capture_module(main))
    model = run_pipeline(captured.program, serving_passes(hidden="post-norm"))[0]
    draft = run_pipeline(captured.drafts[0], TO_SERVING)[0]
    return model, draft


@cache
def fused_step(
    plan: str,
    drafts: int,
    *,
    early: bool = False,
    packed: bool = False,
    branches: tuple[int, ...] = (),
) -> Program:
    """Return a step of the plan with the layer at so many depths.

    Args:
        plan: ``decode`` or ``prefill``.
        drafts: Depths.
        early: Whether rows are chosen as early as possible, as in compilations.
        packed: Whether placeholders have no rows, as in compilations.
        branches: Candidates at each depth of a tree.
    """
    model, draft = (run_pipeline(each, _PLANS[plan])[0] for each in serving_forms())
    passes = closing_passes(plan, (draft,) * drafts, branches=branches)
    left = (*(() if early else (GatherEarlier,)), *(() if packed else (DropPlaceholders,)))
    return run_pipeline(model, tuple(each for each in passes if not isinstance(each, left)))[0]
