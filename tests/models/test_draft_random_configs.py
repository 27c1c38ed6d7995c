"""The draft layer of any small DeepSeek-V3: that of transformers, cached as the main layers are."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
import torch
from hypothesis import HealthCheck, Phase, given, settings
from transformers import PretrainedConfig

from ascendfx.ir.capture.eager_modules import in_float64
from ascendfx.ir.size import bind_size, product
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.presets import DECODE, PREFILL, TO_SERVING
from tests.checkpoint.draft_checkpoint import eager_draft, write_model
from tests.models.draft_steps import assert_pieces_equal_the_whole, in_one_go
from tests.models.random_config import v3_configs

# Float64 sums of at most 150 terms around one, twenty operations deep; YaRN and factors up to 16.
ATOL = 1e-10


@given(config=v3_configs())
@settings(
    max_examples=2,  # each is traced
    phases=(Phase.explicit, Phase.generate),
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.filter_too_much],
)
def test_layer_and_steps(config: PretrainedConfig) -> None:
    config.num_nextn_predict_layers = 1
    with TemporaryDirectory() as folder:
        _, mtp = write_model(Path(folder), config, 1)
        captured = capture_model(folder, drafts=True)
        tensors = TensorsByKey(captured.source)
        (draft,) = captured.drafts
        width, vocabulary = int(config.hidden_size), captured.facts.vocabulary
        random = np.random.default_rng(0)
        ids, hidden = random.integers(0, vocabulary, 8), random.standard_normal((8, width))
        logits, normed, _ = in_one_go(draft, tensors, ids, hidden)
        with in_float64(mtp):
            theirs = eager_draft(
                mtp, 0, torch.from_numpy(ids[None]), torch.from_numpy(hidden[None])
            )
        np.testing.assert_allclose(logits, theirs[0][0].numpy(), rtol=0, atol=ATOL)
        np.testing.assert_allclose(normed, theirs[1][0].numpy(), rtol=0, atol=ATOL)
        serving, _ = run_pipeline(draft, TO_SERVING)
        caches = [kind for name, kind in serving.main.input_types.items() if "cache" in name]
        elements = sum(bind_size(product(kind.shape[2:]), {}) for kind in caches)
        assert elements == config.kv_lora_rank + config.qk_rope_head_dim
        for passes in (DECODE, PREFILL):
            assert_pieces_equal_the_whole(
                draft,
                run_pipeline(serving, passes)[0],
                tensors,
                [[3, 1, 1], [2]],
                vocabulary=vocabulary,
                width=width,
                atol=ATOL,
            )
