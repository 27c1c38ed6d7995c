"""Draft layers: one of DeepSeek, and a small one with a single thing changed at a time."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers import DeepseekV3Config
from transformers.models.deepseek_v3.modeling_deepseek_v3 import (
    DeepseekV3DecoderLayer,
    DeepseekV3RMSNorm,
    DeepseekV3RotaryEmbedding,
)

HIDDEN, HEADS, LANES, VOCABULARY = 16, 2, 8, 29


class DeepseekDraft(nn.Module):
    """The multi-token prediction layer of DeepSeek-V3 (arXiv 2412.19437, section 2.2)."""

    def __init__(self, config: DeepseekV3Config) -> None:
        super().__init__()
        self.config = config
        self.embed = nn.Embedding(config.vocab_size, config.hidden_size)
        self.enorm = DeepseekV3RMSNorm(config.hidden_size)
        self.hnorm = DeepseekV3RMSNorm(config.hidden_size)
        self.eh_proj = nn.Linear(2 * config.hidden_size, config.hidden_size, bias=False)
        self.layer = DeepseekV3DecoderLayer(config, 0)
        self.norm = DeepseekV3RMSNorm(config.hidden_size)
        self.head = nn.Linear(config.hidden_size, config.vocab_size, bias=False)
        self.rotary = DeepseekV3RotaryEmbedding(config)

    def forward(self, token_ids: Tensor, hidden: Tensor) -> Any:
        both = torch.cat([self.enorm(self.embed(token_ids)), self.hnorm(hidden)], -1)
        x = self.eh_proj(both)
        positions = torch.arange(token_ids.shape[1])[None]
        found = self.layer(
            x,
            attention_mask=causal_mask(token_ids, x.dtype),
            position_ids=positions,
            position_embeddings=self.rotary(x, positions),
        )
        raw = found[0] if isinstance(found, tuple) else found
        normed = self.norm(raw)
        return self.head(normed), normed, raw


def deepseek_draft(seed: int = 0, **changes: Any) -> DeepseekDraft:
    """Return a tiny layer with random weights."""
    options: dict[str, Any] = {
        "vocab_size": VOCABULARY,
        "hidden_size": HIDDEN,
        "intermediate_size": 24,
        "moe_intermediate_size": 8,
        "num_hidden_layers": 2,
        "num_attention_heads": HEADS,
        "num_key_value_heads": HEADS,
        "n_routed_experts": 4,
        "n_shared_experts": 1,
        "num_experts_per_tok": 2,
        "n_group": 2,
        "topk_group": 1,
        "kv_lora_rank": 8,
        "q_lora_rank": 12,
        "qk_rope_head_dim": LANES,
        "qk_nope_head_dim": 6,
        "v_head_dim": 6,
        "first_k_dense_replace": 1,
        "max_position_embeddings": 64,
        "attn_implementation": "eager",
        "experts_implementation": "grouped_mm",
    }
    torch.manual_seed(seed)
    module = DeepseekDraft(DeepseekV3Config(**{**options, **changes}))
    for parameter in module.parameters():
        nn.init.normal_(parameter, std=0.4)
    return module.eval()


def causal_mask(token_ids: Tensor, dtype: torch.dtype) -> Tensor:
    """Return what is added to scores so that no token sees a later one."""
    tokens = token_ids.shape[1]
    full = torch.full((tokens, tokens), float("-inf"), dtype=dtype)
    return full.triu(1)[None, None]


class SmallDraft(nn.Module):
    """One attention with rotated queries and keys; subclasses change one step."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, HIDDEN)
        self.join = nn.Linear(2 * HIDDEN, HIDDEN, bias=False)
        self.q, self.k, self.v = (nn.Linear(HIDDEN, HEADS * LANES, bias=False) for _ in range(3))
        self.out = nn.Linear(HEADS * LANES, HIDDEN, bias=False)
        self.head = nn.Linear(HIDDEN, VOCABULARY, bias=False)
        exponents = torch.arange(0, LANES, 2) / LANES
        self.frequencies = nn.Buffer(100.0**-exponents)
        self.slower = nn.Buffer(1000.0**-exponents)

    def start(self, x: Tensor, positions: Tensor) -> Tensor:
        """Change what tokens hold."""
        del positions
        return x

    def angles(self, positions: Tensor) -> Tensor:
        """Return ``[tokens, pairs]``."""
        return positions[:, None].float() * self.frequencies

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosines and sines ``[tokens, pairs]``."""
        angles = self.angles(positions)
        return angles.cos(), angles.sin()

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        """Rotate ``[batch, heads, tokens, lanes]``."""
        return rotate_halves(q, *self.tables(positions))

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        """Rotate ``[batch, heads, tokens, lanes]``."""
        return rotate_halves(k, *self.tables(positions))

    def turn_value(self, v: Tensor, positions: Tensor) -> Tensor:
        """Change values."""
        del positions
        return v

    def mask(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        """Return what is added to scores."""
        del positions
        return causal_mask(token_ids, torch.float32)

    def forward(self, token_ids: Tensor, hidden: Tensor) -> Any:
        positions = torch.arange(token_ids.shape[1])
        x = self.join(torch.cat([self.embed(token_ids), hidden], -1))
        x = self.start(x, positions)
        q, k, v = (each(x).unflatten(-1, (HEADS, LANES)).transpose(1, 2) for each in self.qkv)
        q, k = self.rotate_query(q, positions), self.rotate_key(k, positions)
        scores = q @ k.transpose(2, 3) * LANES**-0.5 + self.mask(token_ids, positions)
        y = scores.softmax(-1) @ self.turn_value(v, positions)
        x = x + self.out(y.transpose(1, 2).flatten(2))
        return self.head(x), x

    @property
    def qkv(self) -> tuple[nn.Linear, nn.Linear, nn.Linear]:
        """The projections."""
        return self.q, self.k, self.v


def rotate_halves(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs ``x[i], x[i + lanes / 2]``."""
    u, v = x.chunk(2, -1)
    return torch.cat([u * cos - v * sin, v * cos + u * sin], -1)


def rotate_neighbours(x: Tensor, cos: Tensor, sin: Tensor) -> Tensor:
    """Rotate pairs ``x[2 i], x[2 i + 1]``."""
    u, v = x[..., ::2], x[..., 1::2]
    return torch.stack([u * cos - v * sin, v * cos + u * sin], -1).flatten(-2)
