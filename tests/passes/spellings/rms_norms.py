"""x / sqrt(mean(x²) + eps) · gain."""

import torch
from torch import Tensor
from torch.nn import functional

from tests.passes.spellings.spelling import WIDTH, Around, spelled

EPS = 1e-5


def _mean_square(x: Tensor) -> Tensor:
    return x.pow(2).mean(-1, keepdim=True)


def _in_float(a: Around, x: Tensor) -> Tensor:
    wide = x.to(torch.float32)
    return a.gain * (wide * torch.rsqrt(_mean_square(wide) + EPS)).to(x.dtype)


def _gain_in_float(a: Around, x: Tensor) -> Tensor:
    wide = x.float()
    return (a.gain.float() * (wide * torch.rsqrt(_mean_square(wide) + EPS))).to(x.dtype)


RIGHT = spelled(
    "rms_norm",
    {
        "as-hugging-face": _in_float,
        "gain-in-float": _gain_in_float,
        "product-instead-of-power": lambda a, x: (
            x * torch.rsqrt((x * x).mean(-1, keepdim=True) + EPS) * a.gain
        ),
        "divided-by-the-root": lambda a, x: x / torch.sqrt(_mean_square(x) + EPS) * a.gain,
        "epsilon-first": lambda a, x: a.gain * (torch.rsqrt(EPS + _mean_square(x)) * x),
        "power-of-a-half": lambda a, x: x * (_mean_square(x) + EPS) ** -0.5 * a.gain,
        "reciprocal-of-the-root": lambda a, x: (
            x * torch.sqrt(_mean_square(x) + EPS).reciprocal() * a.gain
        ),
        "one-over-the-root": lambda a, x: x * (1.0 / torch.sqrt(_mean_square(x) + EPS)) * a.gain,
        "sum-over-the-width": lambda a, x: (
            x * torch.rsqrt((x * x).sum(-1, keepdim=True) / WIDTH + EPS) * a.gain
        ),
        "functional": lambda a, x: functional.rms_norm(x, (WIDTH,), a.gain, EPS),
        "gain-before": lambda a, x: (x * a.gain) * torch.rsqrt(_mean_square(x) + EPS),
        "mean-without-axis": lambda a, x: (
            x * torch.rsqrt((x * x).mean(-1)[..., None] + EPS) * a.gain
        ),
    },
)


def _half_precision(a: Around, x: Tensor) -> Tensor:
    narrow = x.to(torch.bfloat16)
    return a.gain * (narrow * torch.rsqrt(_mean_square(narrow) + EPS)).to(x.dtype)


def _cast_in_between(a: Around, x: Tensor) -> Tensor:
    mean = _mean_square(x).to(torch.bfloat16).to(x.dtype)
    return x * torch.rsqrt(mean + EPS) * a.gain


def _normalized_is_read_twice(a: Around, x: Tensor) -> Tensor:
    normalized = x * torch.rsqrt(_mean_square(x) + EPS)
    return normalized * a.gain + normalized


NEAR = spelled(
    "rms_norm",
    {
        "epsilon-outside-the-root": lambda a, x: x / (torch.sqrt(_mean_square(x)) + EPS) * a.gain,
        "epsilon-after-rsqrt": lambda a, x: x * (torch.rsqrt(_mean_square(x)) + EPS) * a.gain,
        "epsilon-per-channel": lambda a, x: (
            x * torch.rsqrt(_mean_square(x) + EPS * a.other_gain) * a.gain
        ),
        "epsilon-negative": lambda a, x: x * torch.rsqrt(_mean_square(x) - EPS) * a.gain,
        "no-epsilon": lambda a, x: x * torch.rsqrt(_mean_square(x)) * a.gain,
        "sum-instead-of-mean": lambda a, x: (
            x * torch.rsqrt(x.pow(2).sum(-1, keepdim=True) + EPS) * a.gain
        ),
        "cube": lambda a, x: x * torch.rsqrt(x.pow(4).mean(-1, keepdim=True) + EPS) * a.gain,
        "mean-over-tokens": lambda a, x: (
            x * torch.rsqrt(x.pow(2).mean(1, keepdim=True) + EPS) * a.gain
        ),
        "mean-over-both-axes": lambda a, x: (
            x * torch.rsqrt(x.pow(2).mean((1, 2), keepdim=True) + EPS) * a.gain
        ),
        "root-instead-of-reciprocal": lambda a, x: x * torch.sqrt(_mean_square(x) + EPS) * a.gain,
        "mean-of-another": lambda a, x: x * torch.rsqrt(_mean_square(a.up(x)) + EPS) * a.gain,
        "another-is-scaled": lambda a, x: a.up(x) * torch.rsqrt(_mean_square(x) + EPS) * a.gain,
        "square-of-the-mean": lambda a, x: (
            x * torch.rsqrt(x.mean(-1, keepdim=True).pow(2) + EPS) * a.gain
        ),
        "gain-per-token": lambda a, x: (
            x * torch.rsqrt(_mean_square(x) + EPS) * x.sum(-1, keepdim=True)
        ),
        "gain-is-added": lambda a, x: x * torch.rsqrt(_mean_square(x) + EPS) + a.gain,
        "product-with-another": lambda a, x: (
            x * torch.rsqrt((x * (x * a.other_gain)).mean(-1, keepdim=True) + EPS) * a.gain
        ),
        "mean-in-half-precision": _half_precision,
        "mean-is-rounded": _cast_in_between,
        "centred": lambda a, x: (
            (x - x.mean(-1, keepdim=True)) * torch.rsqrt(_mean_square(x) + EPS) * a.gain
        ),
        "variance": lambda a, x: (
            x * torch.rsqrt(_mean_square(x) - x.mean(-1, keepdim=True).pow(2) + EPS) * a.gain
        ),
        "normalized-is-read-twice": _normalized_is_read_twice,
    },
)
