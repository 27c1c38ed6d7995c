"""One small function per ATen overload that the capture translates."""

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.nn import functional

Case = Callable[[Tensor, Tensor], Tensor]
"""``f(x, ids)`` with floats ``[batch, tokens, 8]`` and integers ``[batch, tokens]``."""

aten: Any = torch.ops.aten

ARITHMETIC: dict[str, Case] = {
    "add.Tensor": lambda x, _: x + x.exp(),
    "add.Tensor alpha": lambda x, _: torch.add(x, x.exp(), alpha=3),
    "add.Tensor of a size": lambda x, _: x / x.shape[1] + (x.shape[0] * x.shape[1] + 1),
    "sub.Tensor": lambda x, _: x - 2,
    "rsub.Scalar": lambda x, _: 2 - x,
    "mul.Tensor": lambda x, i: x * i.unsqueeze(-1),
    "div.Tensor": lambda x, i: x / (i.unsqueeze(-1) + 1),
    "div.Tensor integers": lambda x, i: x * (i / 3).unsqueeze(-1),
    "div.Tensor_mode": lambda x, i: x * torch.div(i, 3, rounding_mode="floor").unsqueeze(-1),
    "floor_divide.default": lambda x, i: x * (i // 4).unsqueeze(-1),
    "remainder.Scalar": lambda x, i: x * (i % 4).unsqueeze(-1),
    "remainder.Tensor": lambda x, i: x * ((i - 9) % (i + 2)).unsqueeze(-1),
    "pow.Tensor_Scalar": lambda x, _: x**3,
    "pow.Tensor_Tensor": lambda x, _: x.exp() ** x,
    "pow.Scalar": lambda x, _: 2**x,
    "maximum.default": lambda x, _: torch.maximum(x, -x),
    "minimum.default": lambda x, _: torch.minimum(x, x**2),
    "abs.default": lambda x, _: x.abs(),
    "clamp.default": lambda x, _: x.clamp(-0.3, 0.4),
    "clamp.Tensor": lambda x, _: torch.clamp(x, x**2 - 0.5, x**2),
    "clamp_min.default": lambda x, _: x.clamp(min=0.1),
    "clamp max": lambda x, _: x.clamp(max=0.1),
    "cos.default": lambda x, _: x.cos(),
    "sin.default": lambda x, _: x.sin(),
    "exp.default": lambda x, _: x.exp(),
    "log.default": lambda x, _: (x**2 + 1).log(),
    "neg.default": lambda x, _: -x,
    "reciprocal.default": lambda x, _: (x**2 + 1).reciprocal(),
    "relu.default": lambda x, _: x.relu(),
    "round.default": lambda x, _: (2 * x).round(),
    "rsqrt.default": lambda x, _: (x**2 + 1).rsqrt(),
    "sqrt.default": lambda x, _: (x**2 + 1).sqrt(),
    "sigmoid.default": lambda x, _: x.sigmoid(),
    "silu.default": lambda x, _: functional.silu(x),
    "eq.Scalar": lambda x, i: x * (i == 3).unsqueeze(-1),
    "ne.Tensor": lambda x, i: x * (i != i // 2).unsqueeze(-1),
    "lt.Scalar": lambda x, _: x * (x < 0.1),
    "lt.Scalar promoted": lambda x, i: x * (i < 3.5).unsqueeze(-1),
    "le.Tensor": lambda x, _: x * (x <= x**2),
    "gt.Scalar": lambda x, i: x * (i > 3).unsqueeze(-1),
    "ge.Scalar": lambda x, i: x * (i >= 3).unsqueeze(-1),
    "logical_not.default": lambda x, i: x * torch.logical_not(i > 2).unsqueeze(-1),
    "bitwise_not.default": lambda x, i: x * (~(i > 2)).unsqueeze(-1),
    "__and__.Tensor": lambda x, i: x * ((i > 2) & (i < 7)).unsqueeze(-1),
    "logical_and.default": lambda x, i: x * torch.logical_and(i > 2, i < 7).unsqueeze(-1),
    "__or__.Tensor": lambda x, i: x * ((i > 7) | (i < 2)).unsqueeze(-1),
    "logical_or.default": lambda x, i: x * torch.logical_or(i > 7, i < 2).unsqueeze(-1),
    "where.self": lambda x, _: torch.where(x > 0, x, x**2),
    "where.Scalar": lambda x, _: x * torch.where(x > 0, 1.0, 2.0),
    "where.ScalarOther": lambda x, _: torch.where(x > 0, x, 5.0),
    "where.ScalarSelf": lambda x, _: torch.where(x > 0, 5.0, x),
    "masked_fill.Scalar": lambda x, _: x.masked_fill(x > 0, float("-inf")).exp(),
    "masked_fill.Tensor": lambda x, _: x.masked_fill(x > 0, torch.tensor(3.0)),
    "positive.default": lambda x, _: +x,
    "view.dtype": lambda x, _: x.view(torch.float32),
    "to.dtype": lambda x, i: x * i.to(torch.int32).to(x.dtype).unsqueeze(-1),
    "to bool": lambda x, i: x * i.bool().unsqueeze(-1),
    "type_as.default": lambda x, i: x * i.type_as(x).unsqueeze(-1),
    "gelu.default": lambda x, _: functional.gelu(x, approximate="tanh"),
    "tanh.default": lambda x, _: x.tanh(),
    "layer_norm.default": lambda x, _: functional.layer_norm(x, (8,), x[0, 0], x[0, 1], 0.1),
    "layer_norm two axes": lambda x, _: functional.layer_norm(
        torch.stack((x, x * x), -1), (8, 2)
    ).sum(-1),
    "rms_norm.default": lambda x, _: functional.rms_norm(x, (8,), x[0, 0], 0.1),
    "detach.default": lambda x, _: x.detach() + x.clone(),
}

MOVES: dict[str, Case] = {
    "einsum of two axes": lambda x, _: torch.einsum("btk,bsk->bts", x, x.exp()).sum(-1)[..., None],
    "einsum over batch": lambda x, _: torch.einsum("btk,btj->tkj", x, x.exp()).sum(-1)[None],
    "einsum outer": lambda x, _: torch.einsum("btk,j->btjk", x, x[0, 0]).sum(2),
    "einsum of many": lambda x, _: torch.einsum(
        "bthk,bshk->tsb", x.unflatten(-1, (2, 4)), x.unflatten(-1, (2, 4))
    ).sum(0, keepdim=True),
    "repeat_interleave.self_int": lambda x, _: x.repeat_interleave(3, dim=-1),
    "square.default": lambda x, _: x.square(),
    "view.default": lambda x, _: x.view(*x.shape[:2], 2, 4).sum(2),
    "flatten.using_ints": lambda x, _: x.flatten(0, 1),
    "unflatten.int": lambda x, _: x.unflatten(-1, (2, 4)).sum(-1),
    "unsqueeze.default": lambda x, _: x.unsqueeze(1).unsqueeze(-1),
    "squeeze.dim": lambda x, _: x.unsqueeze(1).squeeze(1),
    "squeeze.dims": lambda x, _: x[None, :, None].squeeze((0, 2)),
    "expand.default": lambda x, _: x[:, :, None].expand(-1, -1, 3, -1),
    "expand_as.default": lambda x, _: x[:, :1].expand_as(x),
    "permute.default": lambda x, _: x.permute(2, 0, 1),
    "transpose.int": lambda x, _: x.transpose(-1, 0),
    "t.default": lambda x, _: x[0].t(),
    "slice.Tensor": lambda x, _: x[..., 2:7:2] + x[..., -3:],
    "slice beyond": lambda x, _: x[..., -100:5],
    "slice symbolic": lambda x, _: x[:, 1:] - x[:, :-1],
    "slice last": lambda x, _: x[:, -1:],
    "select.int": lambda x, _: x[:, -1] * x[..., 3].sum(),
    "split.Tensor": lambda x, _: x.split(3, -1)[2],
    "split_with_sizes.default": lambda x, _: torch.split(x, [1, 5, 2], -1)[1],
    "chunk.default": lambda x, _: x.chunk(2, -1)[1],
    "unbind.int": lambda x, _: x.unbind(-1)[3],
    "cat.default": lambda x, i: torch.cat([x, i.unsqueeze(-1)], -1),
    "cat symbolic": lambda x, _: torch.cat([x, x, x * 2], 1),
    "stack.default": lambda x, _: torch.stack([x, x * 2], 1),
    "tril.default": lambda x, _: (x @ x.transpose(1, 2)).tril(1),
    "triu.default": lambda x, _: (x @ x.transpose(1, 2)).triu(-1),
    "zeros.default": lambda x, _: x + torch.zeros(8),
    "ones_like.default": lambda x, _: x + torch.ones_like(x),
    "new_zeros.default": lambda x, _: x + x.new_zeros(8),
    "new_ones.default": lambda x, _: x + x.new_ones(x.shape),
    "full.default": lambda x, _: x + torch.full((8,), 2.5),
    "full_like.default": lambda x, _: x + torch.full_like(x, 2.5),
    "new_full.default": lambda x, _: x + x.new_full((8,), 3.0),
    "scalar_tensor.default": lambda x, _: x + aten.scalar_tensor(2.0),
    "arange.start": lambda x, _: x + torch.arange(2, 10),
    "arange.start_step": lambda x, _: x + torch.arange(0, 16, 2, dtype=torch.float32),
    "arange symbolic": lambda x, _: x * torch.arange(x.shape[1])[:, None],
    "fill.Scalar": lambda x, _: x * torch.empty_like(x).fill_(3.0),
    "slice_scatter.default": lambda x, _: torch.slice_scatter(x, x[..., :2] * 2, -1, 3, 5),
    "slice_scatter symbolic": lambda x, _: torch.slice_scatter(x, x[:, 1:] * 2, 1, 1),
    "select_scatter.default": lambda x, _: torch.select_scatter(x, x[..., 0] * 2, -1, -2),
}

REDUCTIONS: dict[str, Case] = {
    "sum.dim_IntList": lambda x, _: x.sum((0, -1)),
    "sum.default": lambda x, _: x * x.sum(),
    "sum integers": lambda x, i: x * i.sum(-1, keepdim=True).unsqueeze(-1),
    "mean.dim": lambda x, _: x.mean(-1, keepdim=True),
    "mean.default": lambda x, _: x * x.mean(),
    "amax.default": lambda x, _: x.amax(-1),
    "max.default": lambda x, _: x * x.max(),
    "max.dim": lambda x, _: x.max(-1)[0] * x.max(-1)[1],
    "max.dim other axis": lambda x, _: x.max(1, keepdim=True)[0],
    "argmax.default": lambda x, _: x * x.argmax(-1, keepdim=True),
    "softmax.int": lambda x, _: x.softmax(1),
    "topk.default": lambda x, _: x.topk(3)[0] * x.topk(3)[1],
    "topk smallest": lambda x, _: x.topk(3, largest=False)[0],
    "sort.default": lambda x, _: x.sort(-1)[0] * x.sort(-1)[1],
    "sort.stable": lambda x, i: x * i.sort(stable=True, descending=True)[1].unsqueeze(-1),
    "argsort.default": lambda x, _: x * x.argsort(-1),
    "cumsum.default": lambda x, _: x.cumsum(1),
    "cumsum bool": lambda x, i: x * (i > 2).cumsum(-1).unsqueeze(-1),
    "diff.default": lambda x, _: x.diff(dim=1, prepend=x[:, :1] * 2) + x.diff(append=x[..., :1]),
    "histc.default": lambda x, i: x + torch.histc(i.flatten().float(), 8, 0, 7),
}

CHOICES: dict[str, Case] = {
    "embedding.default": lambda x, i: (
        functional.embedding(i, x[0, :1].t().expand(8, 3)) + x[..., :3]
    ),
    "index.Tensor": lambda x, i: x.flatten(0, 1)[i.flatten() * 0],
    "index.Tensor axis": lambda x, i: x[..., i.flatten()[:2]],
    "index.Tensor two": lambda x, i: i[i * 0, i * 0].unsqueeze(-1) * x,
    "index_select.default": lambda x, i: x.index_select(-1, i.flatten()),
    "index_put.default": lambda x, _: _permuted(x.flatten(0, 1)),
    "gather.default": lambda x, _: x.gather(-1, x.topk(3)[1]),
    "scatter.value": lambda x, _: x.scatter(-1, x.topk(3)[1], 7.0),
    "scatter.src": lambda x, _: x.scatter(-1, x.topk(3)[1], x * 2),
    "mm.default": lambda x, _: torch.mm(x[0], x[0].t()),
    "bmm.default": lambda x, _: torch.bmm(x, x.transpose(1, 2)),
    "addmm.default": lambda x, _: torch.addmm(x[0, 0], x[0], x[0].t() @ x[0]),
    "matmul.default": lambda x, _: x @ x[0, 0],
    "matmul vector": lambda x, _: x[0, 0] @ x.transpose(1, 2),
    "linear.default": lambda x, _: functional.linear(x, x[0, :1].expand(4, 8), x[0, 0, :4]),
    "scaled_dot_product_attention.default": lambda x, _: _attention(x, causal=False),
    "attention causal": lambda x, _: _attention(x, causal=True),
    "polar.default": lambda x, _: torch.view_as_real(torch.polar(x, x * 2)),
    "complex.default": lambda x, _: torch.view_as_real(
        torch.complex(x, x * 2) * torch.complex(x, -x)
    ),
    "complex moved": lambda x, _: torch.view_as_real(
        torch.complex(x, x * 2).transpose(0, 1)[..., 2:].unsqueeze(1) * 3
    ),
    "complex joined": lambda x, _: torch.view_as_real(torch.cat([torch.complex(x, x)] * 2, -1)),
    "real.default": lambda x, _: torch.complex(x, x * 2).real + torch.complex(x, x * 3).imag,
}


def _permuted(rows: Tensor) -> Tensor:
    """Undo a permutation with an assignment, as experts do."""
    order = rows[:, 0].argsort()
    inverse = torch.empty_like(order)
    inverse[order] = torch.arange(order.size(0))
    return rows[order][inverse] * inverse.unsqueeze(-1)


def _attention(x: Tensor, *, causal: bool) -> Tensor:
    q = x.view(*x.shape[:2], 2, 4).transpose(1, 2)
    mask = None if causal else (q[..., :1] > -0.2)
    return functional.scaled_dot_product_attention(
        q, q * 2, q + 1, attn_mask=mask, is_causal=causal, scale=0.3
    )
