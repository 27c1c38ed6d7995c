"""silu(gate) · up."""

import torch
from torch import Tensor
from torch.nn import functional

from tests.passes.spellings.spelling import Around, spelled


def _chunked(a: Around, x: Tensor) -> Tensor:
    gate, up = torch.cat((a.gate(x), a.up(x)), dim=-1).chunk(2, dim=-1)
    return functional.silu(gate) * up


def _sigmoid(a: Around, x: Tensor) -> Tensor:
    gate = a.gate(x)
    return gate * torch.sigmoid(gate) * a.up(x)


def _sigmoid_last(a: Around, x: Tensor) -> Tensor:
    gate = a.gate(x)
    return gate * a.up(x) * torch.sigmoid(gate)


def _exponential(a: Around, x: Tensor) -> Tensor:
    gate = a.gate(x)
    return gate / (1 + torch.exp(-gate)) * a.up(x)


def _one_product(a: Around, x: Tensor) -> Tensor:
    both = functional.linear(x, torch.cat((a.gate.weight, a.up.weight)))
    return functional.silu(both[..., : both.shape[-1] // 2]) * both[..., both.shape[-1] // 2 :]


RIGHT = spelled(
    "swiglu",
    {
        "as-hugging-face": lambda a, x: functional.silu(a.gate(x)) * a.up(x),
        "up-first": lambda a, x: a.up(x) * functional.silu(a.gate(x)),
        "chunked": _chunked,
        "one-product": _one_product,
        "sigmoid": _sigmoid,
        "sigmoid-last": _sigmoid_last,
        "exponential": _exponential,
    },
)


def _sigmoid_of_up(a: Around, x: Tensor) -> Tensor:
    gate, up = a.gate(x), a.up(x)
    return gate * torch.sigmoid(up) * up


def _steeper(a: Around, x: Tensor) -> Tensor:
    gate = a.gate(x)
    return gate * torch.sigmoid(1.702 * gate) * a.up(x)


def _negative(a: Around, x: Tensor) -> Tensor:
    gate = a.gate(x)
    return gate * torch.sigmoid(-gate) * a.up(x)


def _rounded(a: Around, x: Tensor) -> Tensor:
    return functional.silu(a.gate(x)).to(torch.bfloat16).to(x.dtype) * a.up(x)


def _read_twice(a: Around, x: Tensor) -> Tensor:
    active = functional.silu(a.gate(x))
    return active * a.up(x) + active


def _softplus_like(a: Around, x: Tensor) -> Tensor:
    gate = a.gate(x)
    return gate / (2 + torch.exp(-gate)) * a.up(x)


NEAR = spelled(
    "swiglu",
    {
        "sigmoid-alone": lambda a, x: torch.sigmoid(a.gate(x)) * a.up(x),
        "relu": lambda a, x: functional.relu(a.gate(x)) * a.up(x),
        "sum": lambda a, x: functional.silu(a.gate(x)) + a.up(x),
        "quotient": lambda a, x: functional.silu(a.gate(x)) / (3 + a.up(x)),
        "up-of-one-column": lambda a, x: functional.silu(a.gate(x)) * a.up(x)[..., :1],
        "up-of-one-token": lambda a, x: functional.silu(a.gate(x)) * a.up(x)[:, :1],
        "sigmoid-of-the-other": _sigmoid_of_up,
        "steeper-sigmoid": _steeper,
        "negative-sigmoid": _negative,
        "clamped": lambda a, x: functional.silu(a.gate(x)).clamp(max=1.0) * a.up(x),
        "rounded-in-between": _rounded,
        "read-twice": _read_twice,
        "another-denominator": _softplus_like,
    },
)
