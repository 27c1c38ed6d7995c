"""softmax(scale · q kᵀ + mask) v."""

import math

import torch
from torch import Tensor
from torch.nn import functional

from tests.passes.spellings.spelling import GROUPS, HEAD, HEADS, Around, merged, spelled

SCALE = HEAD**-0.5

Three = tuple[Tensor, Tensor, Tensor]


def qkv(a: Around, x: Tensor) -> Three:
    """Return query, key and value, each ``[b, h, t, d]``."""
    return a.heads(a.q(x)), a.heads(a.k(x)), a.heads(a.v(x))


def _as_hugging_face(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    scores = torch.matmul(q, k.transpose(2, 3)) * SCALE + a.causal(x)
    weights = functional.softmax(scores, dim=-1, dtype=torch.float32).to(q.dtype)
    return merged(torch.matmul(weights, v))


def _divided(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    return merged(torch.softmax(q @ k.mT / math.sqrt(HEAD) + a.causal(x), dim=-1) @ v)


def _scaled_query(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    return merged(torch.softmax((q * SCALE) @ k.mT + a.causal(x), dim=-1) @ v)


def _scaled_key(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    return merged(torch.softmax(q @ (k * SCALE).mT + a.causal(x), dim=-1) @ v)


def _masked_fill(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    hidden = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).triu(1)
    scores = (q @ k.mT * SCALE).masked_fill(hidden, float("-inf"))
    return merged(torch.softmax(scores, dim=-1) @ v)


def _where(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    places = torch.arange(x.shape[1])
    seen = places[None, :] <= places[:, None]
    scores = torch.where(seen, q @ k.mT * SCALE, torch.finfo(x.dtype).min)
    return merged(torch.softmax(scores, dim=-1) @ v)


def _einsum(a: Around, x: Tensor) -> Tensor:
    q, k, v = (y.view(*x.shape[:2], HEADS, HEAD) for y in (a.q(x), a.k(x), a.v(x)))
    scores = torch.einsum("bthd,bshd->bhts", q, k) * SCALE + a.causal(x)
    return torch.einsum("bhts,bshd->bthd", torch.softmax(scores, dim=-1), v).flatten(2)


def _functional(a: Around, x: Tensor) -> Tensor:
    return merged(functional.scaled_dot_product_attention(*qkv(a, x), is_causal=True))


def _functional_with_mask(a: Around, x: Tensor) -> Tensor:
    return merged(functional.scaled_dot_product_attention(*qkv(a, x), attn_mask=a.causal(x)))


def _functional_with_choice(a: Around, x: Tensor) -> Tensor:
    seen = torch.ones(x.shape[1], x.shape[1], dtype=torch.bool).tril()
    return merged(functional.scaled_dot_product_attention(*qkv(a, x), attn_mask=seen, scale=0.25))


def _few_key_heads(a: Around, x: Tensor) -> Tensor:
    q = a.heads(a.q(x))
    k, v = (a.heads(y, GROUPS) for y in (a.few_k(x), a.few_v(x)))
    k, v = (y.repeat_interleave(HEADS // GROUPS, dim=1) for y in (k, v))
    return merged(torch.softmax(q @ k.mT * SCALE + a.causal(x), dim=-1) @ v)


def _explicit_softmax(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    scores = q @ k.mT * SCALE + a.causal(x)
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return merged((powers / powers.sum(-1, keepdim=True)) @ v)


RIGHT = spelled(
    "attention",
    {
        "as-hugging-face": _as_hugging_face,
        "divided": _divided,
        "scaled-query": _scaled_query,
        "scaled-key": _scaled_key,
        "masked-fill": _masked_fill,
        "where": _where,
        "einsum": _einsum,
        "functional": _functional,
        "functional-with-mask": _functional_with_mask,
        "functional-with-choice": _functional_with_choice,
        "few-key-heads": _few_key_heads,
        "explicit-softmax": _explicit_softmax,
    },
)


def _scores(a: Around, x: Tensor) -> tuple[Tensor, Tensor]:
    q, k, v = qkv(a, x)
    return q @ k.mT * SCALE + a.causal(x), v


def _softmax_over_queries(a: Around, x: Tensor) -> Tensor:
    scores, v = _scores(a, x)
    return merged(torch.softmax(scores, dim=-2) @ v)


def _softmax_over_heads(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    scores = q @ k.mT * SCALE
    return merged(torch.softmax(scores, dim=1) @ v)


def _masked_after_softmax(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    seen = torch.ones(x.shape[1], x.shape[1]).tril()
    return merged((torch.softmax(q @ k.mT * SCALE, dim=-1) * seen) @ v)


def _scaled_after_softmax(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    return merged((torch.softmax(q @ k.mT + a.causal(x), dim=-1) * SCALE) @ v)


def _scaled_mask(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    slope = torch.arange(x.shape[1], dtype=x.dtype) * 0.1
    return merged(torch.softmax((q @ k.mT + slope) * SCALE + a.causal(x), dim=-1) @ v)


def _mask_divided(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    far = (torch.arange(x.shape[1]) - torch.arange(x.shape[1])[:, None]).to(x.dtype)
    return merged(torch.softmax((q @ k.mT + far) / math.sqrt(HEAD), dim=-1) @ v)


def _scale_per_head(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    temperature = a.gain[:HEADS].view(1, HEADS, 1, 1)
    return merged(torch.softmax(q @ k.mT * temperature + a.causal(x), dim=-1) @ v)


def _softmax_is_rounded(a: Around, x: Tensor) -> Tensor:
    scores, v = _scores(a, x)
    return merged(torch.softmax(scores.to(torch.bfloat16), dim=-1).to(x.dtype) @ v)


def _weights_are_rounded(a: Around, x: Tensor) -> Tensor:
    scores, v = _scores(a, x)
    return merged(torch.softmax(scores, dim=-1).to(torch.bfloat16).to(x.dtype) @ v)


def _scores_are_clipped(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    return merged(torch.softmax(torch.tanh(q @ k.mT * SCALE) + a.causal(x), dim=-1) @ v)


def _sigmoid(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    return merged(torch.sigmoid(q @ k.mT * SCALE) @ v)


def _weights_are_read_twice(a: Around, x: Tensor) -> Tensor:
    scores, v = _scores(a, x)
    weights = torch.softmax(scores, dim=-1)
    return merged(weights @ v) + weights.sum((1, 2))[..., None]


def _key_not_transposed(a: Around, x: Tensor) -> Tensor:
    q, k, v = (a.heads(y).mT for y in (a.q(x), a.k(x), a.v(x)))  # attends over channels
    mixed = torch.softmax(q @ k.mT * SCALE, dim=-1) @ v
    return merged(mixed.mT)


def _query_and_key_of_other_heads(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    q = q.transpose(1, 2)  # heads and tokens swapped
    weights = torch.softmax(q @ k.transpose(1, 2).mT * SCALE, dim=-1)
    return (weights @ v.transpose(1, 2)).flatten(2)


def _bias_on_weights(a: Around, x: Tensor) -> Tensor:
    scores, v = _scores(a, x)
    return merged((torch.softmax(scores, dim=-1) + 0.01) @ v)


def _sum_too_large(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    scores = q @ k.mT * SCALE
    powers = torch.exp(scores - scores.amax(-1, keepdim=True))
    return merged((powers / (1 + powers.sum(-1, keepdim=True))) @ v)


def _shift_by_mean_of_powers(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    powers = torch.exp(q @ k.mT * SCALE)
    return merged((powers / powers.sum(-2, keepdim=True)) @ v)


def _power_of_two(a: Around, x: Tensor) -> Tensor:
    q, k, v = qkv(a, x)
    powers = torch.pow(2.0, q @ k.mT * SCALE)
    return merged((powers / powers.sum(-1, keepdim=True)) @ v)


NEAR = spelled(
    "attention",
    {
        "softmax-over-queries": _softmax_over_queries,
        "softmax-over-heads": _softmax_over_heads,
        "masked-after-softmax": _masked_after_softmax,
        "scaled-after-softmax": _scaled_after_softmax,
        "scaled-mask": _scaled_mask,
        "mask-divided": _mask_divided,
        "scale-per-head": _scale_per_head,
        "softmax-is-rounded": _softmax_is_rounded,
        "weights-are-rounded": _weights_are_rounded,
        "scores-are-clipped": _scores_are_clipped,
        "sigmoid": _sigmoid,
        "weights-are-read-twice": _weights_are_read_twice,
        "over-channels": _key_not_transposed,
        "over-heads": _query_and_key_of_other_heads,
        "bias-on-weights": _bias_on_weights,
        "sum-too-large": _sum_too_large,
        "sum-over-queries": _shift_by_mean_of_powers,
        "power-of-two": _power_of_two,
    },
)
