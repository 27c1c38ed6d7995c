"""Parts of a DeepSeek layer, and how far kernels may be from float64."""

import copy

import torch
from torch import nn
from torch.nn import functional

HIDDEN, INNER, EXPERTS, CHOSEN = 64, 96, 16, 4


class Norm(nn.Module):
    """RMSNorm as transformers spells it."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(1 + 0.1 * torch.randn(HIDDEN))

    def forward(self, x):
        wide = x.to(torch.float32) if x.dtype is torch.bfloat16 else x
        wide = wide * torch.rsqrt(wide.pow(2).mean(-1, keepdim=True) + 1e-6)
        return self.weight * wide.to(x.dtype)


class Mlp(nn.Module):
    """The gated projection of a dense layer."""

    def __init__(self):
        super().__init__()
        self.gate = nn.Linear(HIDDEN, INNER, bias=False)
        self.up = nn.Linear(HIDDEN, INNER, bias=False)
        self.down = nn.Linear(INNER, HIDDEN, bias=False)

    def forward(self, x):
        return self.down(functional.silu(self.gate(x)) * self.up(x))

    def magnitude(self, x):
        """Return the result with every product and sum of absolute values: ``|silu(g)| <= |g|``."""
        layers = (self.gate, self.up, self.down)
        gate, up, down = (each.weight.double().abs() for each in layers)
        return ((x.double().abs() @ gate.T) * (x.double().abs() @ up.T)) @ down.T


class Router(nn.Module):
    """Sigmoid scores and the best experts of each token."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.randn(EXPERTS, HIDDEN) / 8)

    def forward(self, x):
        scores = functional.linear(x, self.weight).sigmoid()
        weights, experts = torch.topk(scores, CHOSEN, dim=-1)
        return weights / weights.sum(-1, keepdim=True), experts


class WithSort(nn.Module):
    """One call without a translation between two products."""

    def __init__(self):
        super().__init__()
        self.first = nn.Linear(HIDDEN, HIDDEN, bias=False)
        self.second = nn.Linear(HIDDEN, HIDDEN, bias=False)

    def forward(self, x):
        return self.second(torch.special.bessel_j0(self.first(x)))


def unit_roundoff(dtype):
    """Return the largest relative error of one rounding."""
    return torch.finfo(dtype).eps / 2


def in_float64(module, *inputs):
    """Return the results of a module whose parameters and inputs are widened."""
    return copy.deepcopy(module).double()(*(each.double() for each in inputs))
