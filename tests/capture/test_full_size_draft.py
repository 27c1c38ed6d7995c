"""The draft layer of DeepSeek-V3 at full size, on meta tensors, to its serving form."""

import json
import subprocess
import sys
from pathlib import Path

from transformers import DeepseekV3Config

from tests.capture.tiny_models import yarn

CHILD = """
import json, resource, sys
from math import prod
from pathlib import Path
from ascendfx.ir.capture.build_model import build_model
from ascendfx.ir.capture.mtp_layers import mtp_layers, trace_mtp_layer
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.presets import TO_SERVING

(layer,) = mtp_layers(build_model(Path(sys.argv[1]), None), 1, None)
serving, _ = run_pipeline(trace_mtp_layer(layer).program, TO_SERVING)
kinds = serving.main.input_types
print(json.dumps({
    "path": layer.path,
    "parameters": sum(prod(kind.shape) for kind in layer.wanted.values()),
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "functions": len(serving.graphs) - 1,
    "caches": [str(kind) for name, kind in kinds.items() if name.startswith("cache.")],
}))
"""


def test_11_billion_parameters_are_captured_without_weights(tmp_path: Path) -> None:
    # The defaults of the configuration are those of the published model.
    config = DeepseekV3Config(dtype="bfloat16", rope_parameters=yarn(1.0, 1.0))
    config.save_pretrained(tmp_path)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(tmp_path)], check=True, stdout=subprocess.PIPE, text=True
    )
    found = json.loads(done.stdout.splitlines()[-1])
    assert found["path"] == "model.layers.61"
    experts, hidden = 257 * 3 * 2048 * 7168, 7168
    assert experts < found["parameters"] < experts + 5 * 7168 * hidden + 128 * 7168 * 192
    assert found["peak_bytes"] < 2**30
    assert found["functions"] == 1
    # kv_lora_rank and qk_rope_head_dim per token, as in the layers of the main model.
    assert found["caches"] == ["bf16[blocks, 128, 512]", "bf16[blocks, 128, 1, 64]"]
