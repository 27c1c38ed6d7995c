"""A reader of ascendV1 directories that shares no code with ours, written before the writer.

Source: the description of the format in msModelSlim and what the loader of vllm-ascend does with
the tensors (types of `quant_model_description.json`). Files are opened by the safetensors library.
"""

import json
from pathlib import Path

import numpy as np
from safetensors import safe_open

TP_SLICES = 16


class AscendDirectory:
    """Looks up tensors as the loader does: the description names them, the index has the file."""

    def __init__(self, folder: Path) -> None:
        config = json.loads((folder / "config.json").read_text())
        assert "quantization_config" not in config
        self.bf16 = config["torch_dtype"] == "bfloat16"
        self.types = json.loads((folder / "quant_model_description.json").read_text())
        assert self.types["version"] == "1.0.0"
        assert self.types["group_size"] == 0
        index = json.loads((folder / "quant_model_weights.safetensors.index.json").read_text())
        self.files = {name: folder / file for name, file in index["weight_map"].items()}
        self.total = index["metadata"]["total_size"]
        assert set(self.files) <= set(self.types)

    def tensor(self, name: str) -> np.ndarray:
        with safe_open(self.files[name], framework="numpy") as file:
            return file.get_tensor(name)

    def codes(self, weight: str) -> np.ndarray:
        """Return one integer per weight, ``[out, in]``."""
        stored = self.tensor(weight)
        assert stored.dtype == np.int8
        if self.types[weight] != "W4A8_DYNAMIC":
            return stored
        out, columns = 2 * stored.shape[0], stored.shape[1]
        codes = np.empty((out, columns), np.int8)
        for row in range(out):
            byte = stored[row // 2].astype(np.int16) & 0xFF
            nibble = byte & 15 if row % 2 == 0 else byte >> 4
            codes[row] = np.where(nibble > 7, nibble - 16, nibble)
        return codes

    def dequantized(self, weight: str) -> np.ndarray:
        """Return ``(w - offset) * scale`` in float32, or the tensor if it is FLOAT."""
        if self.types[weight] == "FLOAT":
            return self.tensor(weight).astype(np.float32)
        scale, offset = (self._sibling(weight, kind) for kind in ("weight_scale", "weight_offset"))
        assert scale.dtype == offset.dtype == np.float32
        codes = self.codes(weight).astype(np.float32)
        group = codes.shape[1] // scale.shape[1]
        return (codes - np.repeat(offset, group, 1)) * np.repeat(scale, group, 1)

    def product(self, weight: str, x: np.ndarray) -> np.ndarray:
        """Return ``x @ w.T`` of float64 inputs ``[tokens, in]`` as the operators compute it."""
        kind = self.types[weight]
        if kind == "W8A8":
            return self._static(weight, x)
        scale_x = np.abs(x).max(1, keepdims=True) / 127
        codes_x = np.rint(x / scale_x).astype(np.int64)
        scale = self._sibling(weight, "weight_scale").astype(np.float64)
        codes = self.codes(weight).astype(np.int64)
        if kind == "W8A8_DYNAMIC":
            return (codes_x @ codes.T) * scale_x * scale.T
        assert kind == "W4A8_DYNAMIC"
        # The operator splits an int8 into two int4: x = 16 high + (low - 8) + 8. The scale bias
        # stands for the last term, summed over the slices of the input.
        high, low = codes_x >> 4, (codes_x & 15) - 8
        assert (16 * high + low + 8 == codes_x).all()
        bias = self._sibling(weight, "scale_bias")
        assert bias.dtype == np.float32
        sliced = weight.endswith(("down_proj.weight", "o_proj.weight"))
        assert bias.shape == (len(codes), TP_SLICES if sliced else 1)
        product = (16 * (high @ codes.T) + low @ codes.T) * scale.T
        return (product + bias.astype(np.float64).sum(1)) * scale_x

    def _static(self, weight: str, x: np.ndarray) -> np.ndarray:
        scale, offset = (self._sibling(weight, kind) for kind in ("input_scale", "input_offset"))
        assert scale.shape == offset.shape == (1,)
        assert scale.dtype == offset.dtype == np.float32
        codes_x = np.clip(np.rint(x / scale) + offset.astype(np.int8), -128, 127).astype(np.int64)
        bias, dequantize = (self._sibling(weight, kind) for kind in ("quant_bias", "deq_scale"))
        assert bias.dtype == np.int32
        if self.bf16:
            assert dequantize.dtype == np.float32
        else:
            assert dequantize.dtype == np.int64
            dequantize = dequantize.astype(np.uint32).view(np.float32)
        return (codes_x @ self.codes(weight).astype(np.int64).T + bias) * dequantize.astype(float)

    def _sibling(self, weight: str, kind: str) -> np.ndarray:
        name = weight.removesuffix("weight") + kind
        assert self.types[name] == self.types[weight]
        return self.tensor(name)
