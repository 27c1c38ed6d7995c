"""How files of the DeepSeek family call routed experts and their router.

As `model.safetensors.index.json` of deepseek-ai/DeepSeek-V3 has them:
``model.layers.3.mlp.experts.0.gate_proj.weight``, ``model.layers.3.mlp.gate.weight``.
"""

import re

EXPERT = re.compile(r"(.*)\.experts\.(\d+)\.(.*)")
"""The layer, the number of the expert, and what of it."""

ROUTER = re.compile(r"(.*)\.gate\.(weight|e_score_correction_bias)")
"""The layer, and what has a row for each expert."""

MATRICES = ("gate_proj.weight", "up_proj.weight", "down_proj.weight")
"""The weights of an expert."""
