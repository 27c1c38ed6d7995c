"""Pairs of a head turned by an angle per position."""

import torch
from torch import Tensor

from tests.passes.spellings.spelling import HEAD, Around, merged, spelled

HALF = HEAD // 2


def rotate_half(x: Tensor) -> Tensor:
    return torch.cat((-x[..., HALF:], x[..., :HALF]), dim=-1)


def _as_llama(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.full_tables(x))
    q = a.heads(a.q(x))
    return merged(q * cos + rotate_half(q) * sin)


def _in_chunks(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.half_tables(x))
    first, second = a.heads(a.q(x)).chunk(2, dim=-1)
    return merged(torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1))


def _by_stack(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.half_tables(x))
    q = a.heads(a.q(x))
    even, odd = q[..., ::2], q[..., 1::2]
    both = torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1)
    return merged(both.flatten(-2))


def _as_deepseek_v3(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.full_tables(x))
    q = a.heads(a.q(x))
    shape = q.shape
    q = q.view(*shape[:-1], HALF, 2).transpose(-1, -2).reshape(shape)
    return merged(q * cos + rotate_half(q) * sin)


def _as_complex(a: Around, x: Tensor) -> Tensor:
    turns = torch.polar(torch.ones_like(a.angles(x)), a.angles(x))[:, None]
    q = torch.view_as_complex(
        a.heads(a.q(x)).float().reshape(*x.shape[:1], -1, x.shape[1], HALF, 2)
    )
    return merged(torch.view_as_real(q * turns).flatten(-2).to(x.dtype))


def _tokens_first(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, :, None] for table in a.full_tables(x))
    q = a.q(x).view(*x.shape[:2], -1, HEAD)
    return (q * cos + rotate_half(q) * sin).flatten(2)


def _sine_first(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.full_tables(x))
    q = a.heads(a.q(x))
    return merged(sin * rotate_half(q) + cos * q)


RIGHT = spelled(
    "rotary",
    {
        "as-llama": _as_llama,
        "in-chunks": _in_chunks,
        "by-stack": _by_stack,
        "as-deepseek-v3": _as_deepseek_v3,
        "as-complex-numbers": _as_complex,
        "tokens-first": _tokens_first,
        "sine-first": _sine_first,
    },
)


def _full(a: Around, x: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    cos, sin = (table[:, None] for table in a.full_tables(x))
    return a.heads(a.q(x)), cos, sin


def _no_negation(a: Around, x: Tensor) -> Tensor:
    q, cos, sin = _full(a, x)
    return merged(q * cos + torch.cat((q[..., HALF:], q[..., :HALF]), dim=-1) * sin)


def _other_half_negated(a: Around, x: Tensor) -> Tensor:
    q, cos, sin = _full(a, x)
    return merged(q * cos + torch.cat((q[..., HALF:], -q[..., :HALF]), dim=-1) * sin)


def _not_swapped(a: Around, x: Tensor) -> Tensor:
    q, cos, sin = _full(a, x)
    return merged(q * cos + torch.cat((-q[..., :HALF], q[..., HALF:]), dim=-1) * sin)


def _unequal_parts(a: Around, x: Tensor) -> Tensor:
    q, cos, sin = _full(a, x)
    return merged(q * cos + torch.cat((-q[..., 2:], q[..., :2]), dim=-1) * sin)


def _subtracted(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.half_tables(x))
    first, second = a.heads(a.q(x)).chunk(2, dim=-1)
    return merged(torch.cat((first * cos - second * sin, second * cos - first * sin), dim=-1))


def _cosine_twice(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.half_tables(x))
    first, second = a.heads(a.q(x)).chunk(2, dim=-1)
    return merged(torch.cat((first * cos - second * sin, second * cos + first * cos), dim=-1))


def _another_head(a: Around, x: Tensor) -> Tensor:
    q, cos, sin = _full(a, x)
    return merged(q * cos + rotate_half(a.heads(a.k(x))) * sin)


def _halves_of_tables_differ(a: Around, x: Tensor) -> Tensor:
    q = a.heads(a.q(x))
    angles = torch.cat((a.angles(x), 2 * a.angles(x)), dim=-1)[:, None]
    return merged(q * angles.cos() + rotate_half(q) * angles.sin())


def _angles_interleaved(a: Around, x: Tensor) -> Tensor:
    q = a.heads(a.q(x))
    angles = torch.stack((a.angles(x), a.angles(x)), dim=-1).flatten(-2)[:, None]
    return merged(q * angles.cos() + rotate_half(q) * angles.sin())


def _steps_of_three(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None, :, :2] for table in a.half_tables(x))
    q = a.heads(a.q(x))
    even, odd = q[..., 0:6:3], q[..., 1:6:3]
    return merged(torch.cat((even * cos - odd * sin, odd * cos + even * sin), dim=-1))


def _pairs_overlap(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.half_tables(x))
    q = a.heads(a.q(x))
    first, second = q[..., :HALF], q[..., 2 : HALF + 2]
    return merged(torch.cat((first * cos - second * sin, second * cos + first * sin), dim=-1))


def _joined_over_tokens(a: Around, x: Tensor) -> Tensor:
    cos, sin = (table[:, None] for table in a.half_tables(x))
    first, second = a.heads(a.q(x)).chunk(2, dim=-1)
    joined = torch.cat((first * cos - second * sin, second * cos + first * sin), dim=1)
    return joined.transpose(1, 2).flatten(2)


NEAR = spelled(
    "rotary",
    {
        "no-negation": _no_negation,
        "other-half-negated": _other_half_negated,
        "not-swapped": _not_swapped,
        "unequal-parts": _unequal_parts,
        "subtracted-twice": _subtracted,
        "cosine-twice": _cosine_twice,
        "another-head-is-turned": _another_head,
        "halves-of-the-tables-differ": _halves_of_tables_differ,
        "angles-interleaved-values-not": _angles_interleaved,
        "steps-of-three": _steps_of_three,
        "pairs-overlap": _pairs_overlap,
        "joined-over-heads": _joined_over_tokens,
    },
)
