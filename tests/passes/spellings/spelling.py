"""A spelling of an operation as a model of its own."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn

WIDTH, HEADS, HEAD, GROUPS, EXPERTS = 32, 4, 8, 2, 8
"""Hidden size, heads, size of a head, key heads, experts of the model around a spelling."""

VOCABULARY = 11

Body = Callable[["Around", Tensor], Tensor]
"""``body(around, x)``: ``x [batch, tokens, WIDTH]`` to anything that starts with batch, tokens."""


@dataclass(frozen=True, slots=True)
class Spelling:
    """One way to write an operation, or to miss it.

    Attributes:
        operation: Mnemonic of the raised operation.
        body: The text under test.
        count: How many of the operation raising must find.
    """

    operation: str
    body: Body
    count: int = 1


class Around(nn.Module):
    """An embedding before the spelling, and what it may need: weights by name, tables."""

    def __init__(self, body: Body) -> None:
        super().__init__()
        self.embed = nn.Embedding(VOCABULARY, WIDTH)
        self.body = body
        self.gain = nn.Parameter(1 + torch.rand(WIDTH))
        self.other_gain = nn.Parameter(1 + torch.rand(WIDTH))
        self.gate = nn.Linear(WIDTH, WIDTH, bias=False)
        self.up = nn.Linear(WIDTH, WIDTH, bias=False)
        self.q = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.k = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.v = nn.Linear(WIDTH, HEADS * HEAD, bias=False)
        self.few_k = nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.few_v = nn.Linear(WIDTH, GROUPS * HEAD, bias=False)
        self.router = nn.Linear(WIDTH, EXPERTS, bias=False)
        self.bias = nn.Parameter(torch.rand(EXPERTS))

    def forward(self, ids: Tensor) -> Tensor:
        return self.body(self, self.embed(ids)).to(self.embed.weight.dtype)

    def angles(self, x: Tensor) -> Tensor:
        """Return angle ``[1, tokens, HEAD / 2]`` of each position and pair."""
        position = torch.arange(x.shape[1], dtype=torch.float32)
        frequency = 1.0 / (100.0 ** (torch.arange(0, HEAD, 2, dtype=torch.float32) / HEAD))
        return (position[:, None] * frequency)[None]

    def full_tables(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine ``[1, tokens, HEAD]`` with every angle twice, halves apart."""
        angles = torch.cat((self.angles(x), self.angles(x)), dim=-1)
        return angles.cos().to(x.dtype), angles.sin().to(x.dtype)

    def half_tables(self, x: Tensor) -> tuple[Tensor, Tensor]:
        """Return cosine and sine ``[1, tokens, HEAD / 2]``."""
        return self.angles(x).cos().to(x.dtype), self.angles(x).sin().to(x.dtype)

    def heads(self, y: Tensor, count: int = HEADS) -> Tensor:
        """Split ``[b, t, count * HEAD]`` into ``[b, count, t, HEAD]``."""
        return y.view(*y.shape[:2], count, HEAD).transpose(1, 2)

    def causal(self, x: Tensor) -> Tensor:
        """Return what is added to scores: ``[1, 1, tokens, tokens]``."""
        places = torch.arange(x.shape[1])
        hidden = places[None, :] > places[:, None]
        return torch.zeros(hidden.shape, dtype=x.dtype).masked_fill(
            hidden, torch.finfo(x.dtype).min
        )[None, None]


def merged(y: Tensor) -> Tensor:
    """Join the heads of ``[b, h, t, d]`` to ``[b, t, h * d]``."""
    return y.transpose(1, 2).reshape(y.shape[0], y.shape[2], -1)


def spelled(operation: str, bodies: dict[str, Body], **options: Any) -> dict[str, Spelling]:
    """Return a table of spellings of one operation."""
    return {name: Spelling(operation, body, **options) for name, body in bodies.items()}
