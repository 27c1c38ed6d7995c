"""Draft modules as users write them."""

from typing import Any

import torch
from torch import Tensor, nn
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3DecoderLayer

WIDTH = 32


class WrittenOut(nn.Module):
    """An attention of its own, written out in the module itself: no layer to outline.

    Attributes:
        results: How many values the forward returns.
    """

    def __init__(self, main: Any, results: int = 3) -> None:
        super().__init__()
        self.embed, self.head = main.get_input_embeddings(), main.lm_head
        self.results = results
        self.join, self.up = nn.Linear(2 * WIDTH, WIDTH), nn.Linear(WIDTH, 48, bias=False)
        self.qkv, self.out = nn.Linear(WIDTH, 3 * WIDTH), nn.Linear(WIDTH, WIDTH, bias=False)
        self.down, self.gain = nn.Linear(48, WIDTH, bias=False), nn.Parameter(torch.ones(WIDTH))

    def forward(self, token_ids: Tensor, hidden: Tensor) -> Any:
        x = self.join(torch.cat([self.embed(token_ids), hidden], -1))
        x = x + self.attend(self.norm(x))
        raw = x + self.down(nn.functional.silu(self.up(self.norm(x))))
        normed = self.norm(raw)
        logits = self.head(normed)
        return logits if self.results == 1 else (logits, normed, raw)[: self.results]

    def norm(self, x: Tensor) -> Tensor:
        return x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-6) * self.gain

    def attend(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        heads = (batch, tokens, 4, WIDTH // 4)
        q, k, v = (each.view(heads).transpose(1, 2) for each in self.qkv(x).chunk(3, -1))
        scores = q @ k.transpose(2, 3) * (WIDTH // 4) ** -0.5 + causal_mask(tokens, x.dtype)
        weights = torch.softmax(scores, -1, dtype=torch.float32).to(x.dtype)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, WIDTH))


class OfTheModel(nn.Module):
    """Decoder layers of the main model's kind, with or without a list around them."""

    def __init__(self, main: Any, layers: int, results: int, *, listed: bool) -> None:
        super().__init__()
        self.embed, self.head = main.get_input_embeddings(), main.lm_head
        self.rotary = main.model.rotary_emb
        self.join = nn.Linear(2 * WIDTH, WIDTH, bias=False)
        made = [DeepseekV3DecoderLayer(main.config, 1) for _ in range(layers)]
        self.listed = nn.ModuleList(made if listed else [])
        for index, layer in enumerate([] if listed else made):
            setattr(self, f"layer{index}", layer)
        self.results, self.layers = results, layers

    def forward(self, token_ids: Tensor, hidden: Tensor) -> Any:
        x = self.join(torch.cat([self.embed(token_ids), hidden], -1))
        tokens = token_ids.shape[1]
        angles = self.rotary(x, position_ids=torch.arange(tokens).unsqueeze(0))
        mask = causal_mask(tokens, x.dtype)
        for index in range(self.layers):
            layer = self.listed[index] if len(self.listed) else getattr(self, f"layer{index}")
            x = layer(x, attention_mask=mask, position_embeddings=angles)
        logits = self.head(x)
        return logits if self.results == 1 else (logits, x, x)[: self.results]


class OpenModel(nn.Module):
    """A language model of two attentions, without a list of layers."""

    def __init__(self, main: Any) -> None:
        super().__init__()
        self.embed = nn.Embedding(*main.lm_head.weight.shape)
        self.first, self.second = WrittenOut(main), WrittenOut(main)

    def forward(self, token_ids: Tensor) -> Tensor:
        _, hidden, _ = self.first(token_ids, self.embed(token_ids))
        return self.second(token_ids, hidden)[0]


class TokenWise(nn.Module):
    """A draft that looks at its own token only."""

    def __init__(self, main: Any) -> None:
        super().__init__()
        self.embed, self.head = main.get_input_embeddings(), main.lm_head
        self.join = nn.Linear(2 * WIDTH, WIDTH)

    def forward(self, token_ids: Tensor, hidden: Tensor) -> tuple[Tensor, Tensor]:
        x = nn.functional.silu(self.join(torch.cat([self.embed(token_ids), hidden], -1)))
        return self.head(x), x


def causal_mask(tokens: int, dtype: torch.dtype) -> Tensor:
    lowest = torch.finfo(dtype).min
    return torch.full((tokens, tokens), lowest, dtype=dtype).triu(1)[None, None]


class BatchMoved(WrittenOut):
    """Makes the axis of query, key and value the first one."""

    def attend(self, x: Tensor) -> Tensor:
        batch, tokens, _ = x.shape
        parts = self.qkv(x).view(batch, tokens, 3, 4, WIDTH // 4).permute(2, 0, 3, 1, 4)
        q, k, v = parts.unbind(0)
        scores = q @ k.transpose(2, 3) * (WIDTH // 4) ** -0.5 + causal_mask(tokens, x.dtype)
        weights = torch.softmax(scores, -1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, tokens, WIDTH))
