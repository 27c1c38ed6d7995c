"""A DeepSeek-V3 checkpoint with real names and widths, mostly holes of sparse files.

Widths: config.json of deepseek-ai/DeepSeek-V3. Of each weight a block of rows is random; the rest
is a hole, which reads as zeros and needs no disk. Scales are random, all of them.
"""

import json
from collections.abc import Iterator
from pathlib import Path

import ml_dtypes
import numpy as np

HIDDEN, QUERY, LATENT, ROTARY, HEADS = 7168, 1536, 512, 64, 128
DENSE, EXPERT, VOCABULARY, BLOCK = 18432, 2048, 129280, 128
FILLED = 128
"""Rows of each weight that are not zero."""
FP8 = np.dtype(ml_dtypes.float8_e4m3fn)
BF16 = np.dtype(ml_dtypes.bfloat16)
F32 = np.dtype(np.float32)
SPELLED = {FP8: "F8_E4M3", BF16: "BF16", F32: "F32"}


def weights(
    layers: int, experts: int, *, draft: bool
) -> Iterator[tuple[str, tuple[int, ...], np.dtype]]:
    """Yield name, shape and format of each tensor; layer 0 is dense, as the first three of V3.

    The last layer may be one that predicts a token more: it repeats embedding and head.
    """
    yield "model.embed_tokens.weight", (VOCABULARY, HIDDEN), BF16
    for layer in range(layers):
        head = f"model.layers.{layer}"
        attention = f"{head}.self_attn"
        for norm, size in (("input_layernorm", HIDDEN), ("post_attention_layernorm", HIDDEN)):
            yield f"{head}.{norm}.weight", (size,), BF16
        yield f"{attention}.q_a_layernorm.weight", (QUERY,), BF16
        yield f"{attention}.kv_a_layernorm.weight", (LATENT,), BF16
        yield f"{attention}.q_a_proj.weight", (QUERY, HIDDEN), FP8
        yield f"{attention}.q_b_proj.weight", (HEADS * 192, QUERY), FP8
        yield f"{attention}.kv_a_proj_with_mqa.weight", (LATENT + ROTARY, HIDDEN), FP8
        yield f"{attention}.kv_b_proj.weight", (HEADS * 256, LATENT), FP8
        yield f"{attention}.o_proj.weight", (HIDDEN, HEADS * 128), FP8
        mlp = f"{head}.mlp"
        blocks = {mlp: DENSE}
        if layer:
            blocks = dict.fromkeys([f"{mlp}.experts.{i}" for i in range(experts)], EXPERT)
            blocks[f"{mlp}.shared_experts"] = EXPERT
            yield f"{mlp}.gate.weight", (experts, HIDDEN), BF16
            yield f"{mlp}.gate.e_score_correction_bias", (experts,), F32
        for block, width in blocks.items():
            yield f"{block}.gate_proj.weight", (width, HIDDEN), FP8
            yield f"{block}.up_proj.weight", (width, HIDDEN), FP8
            yield f"{block}.down_proj.weight", (HIDDEN, width), FP8
    if draft:
        head = f"model.layers.{layers - 1}"
        for norm in ("enorm", "hnorm", "shared_head.norm"):
            yield f"{head}.{norm}.weight", (HIDDEN,), BF16
        yield f"{head}.eh_proj.weight", (HIDDEN, 2 * HIDDEN), BF16
        for repeated in ("embed_tokens", "shared_head.head"):
            yield f"{head}.{repeated}.weight", (VOCABULARY, HIDDEN), BF16
    yield "model.norm.weight", (HIDDEN,), BF16
    yield "lm_head.weight", (VOCABULARY, HIDDEN), BF16


def write_sparse_v3(folder: Path, *, layers: int, experts: int, draft: bool = False) -> int:
    """Write the checkpoint, a file per layer; return the size of its files on paper."""
    folder.mkdir()
    random = np.random.default_rng(0)
    files: dict[str, dict[str, tuple[tuple[int, ...], np.dtype]]] = {}
    for name, shape, form in weights(layers, experts, draft=draft):
        file = f"model-{name.split('.')[2] if '.layers.' in name else 'ends'}.safetensors"
        files.setdefault(file, {})[name] = shape, form
        if form == FP8:
            blocks = tuple(-(-size // BLOCK) for size in shape)
            files[file][f"{name}_scale_inv"] = blocks, F32
    for file, tensors in files.items():
        _write(folder / file, tensors, random)
    index = {"weight_map": {name: file for file, tensors in files.items() for name in tensors}}
    (folder / "model.safetensors.index.json").write_text(json.dumps(index))
    method = {"quant_method": "fp8", "fmt": "e4m3", "weight_block_size": [BLOCK, BLOCK]}
    config = {"torch_dtype": "bfloat16", "quantization_config": method}
    (folder / "config.json").write_text(json.dumps(config))
    return sum(file.stat().st_size for file in folder.glob("*.safetensors"))


def _write(
    file: Path, tensors: dict[str, tuple[tuple[int, ...], np.dtype]], random: np.random.Generator
) -> None:
    table, end = {}, 0
    for name, (shape, form) in tensors.items():
        size = int(np.prod(shape)) * form.itemsize
        offsets = [end, end + size]
        table[name] = {"dtype": SPELLED[form], "shape": shape, "data_offsets": offsets}
        end += size
    header = json.dumps(table).encode()
    with file.open("wb") as opened:
        opened.write(len(header).to_bytes(8, "little") + header)
        for name, (shape, form) in tensors.items():
            scales = name.endswith("_scale_inv")
            rows = shape if scales else (min(FILLED, shape[0]), *shape[1:])
            values = random.standard_normal(rows, np.float32)
            opened.seek(8 + len(header) + table[name]["data_offsets"][0])
            opened.write((np.abs(values) * 1e-3 if scales else values).astype(form).tobytes())
        opened.truncate(8 + len(header) + end)
