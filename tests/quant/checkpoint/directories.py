"""Small checkpoint directories."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
from safetensors.numpy import save_file


def written(
    folder: Path, tensors: Mapping[str, np.ndarray], config: Mapping[str, Any] | None = None
) -> Path:
    folder.mkdir(parents=True, exist_ok=True)
    save_file(dict(tensors), folder / "model.safetensors")
    text = json.dumps({"torch_dtype": "bfloat16", **(config or {})})
    (folder / "config.json").write_text(text, encoding="utf-8")
    return folder


def fp8_config(block: object = (128, 128)) -> dict[str, Any]:
    method = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": block}
    return {"quantization_config": method}
