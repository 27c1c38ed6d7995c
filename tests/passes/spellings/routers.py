"""The experts of a token and their weights."""

import torch
from torch import Tensor

from tests.passes.spellings.spelling import EXPERTS, Around, spelled

K, GROUPS, KEPT, SCALE = 2, 4, 2, 2.5


def dense(weights: Tensor, ids: Tensor) -> Tensor:
    """Return the weight of every expert ``[b, t, EXPERTS]``: ids alone would be no activation."""
    return torch.zeros(*ids.shape[:-1], EXPERTS, dtype=weights.dtype).scatter(-1, ids, weights)


def _kept(scores: Tensor, best: Tensor, nothing: float) -> Tensor:
    groups = best.topk(KEPT, dim=-1).indices
    mask = torch.zeros_like(best).scatter(-1, groups, 1)
    shape = (*scores.shape[:-1], GROUPS, EXPERTS // GROUPS)
    mask = mask.unsqueeze(-1).expand(shape).reshape(scores.shape)
    return scores.masked_fill(~mask.bool(), nothing)


def _grouped(scores: Tensor) -> Tensor:
    return scores.view(*scores.shape[:-1], GROUPS, EXPERTS // GROUPS)


def _as_deepseek_v3(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).float().sigmoid()
    choice = scores + a.bias
    best = _grouped(choice).topk(2, dim=-1)[0].sum(-1)
    ids = _kept(choice, best, float("-inf")).topk(K, dim=-1, sorted=False)[1]
    weights = scores.gather(-1, ids)
    weights = weights / (weights.sum(-1, keepdim=True) + 1e-20) * SCALE
    return dense(weights, ids)


def _as_deepseek_v2(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).softmax(dim=-1, dtype=torch.float32)
    best = _grouped(scores).max(dim=-1).values
    weights, ids = _kept(scores, best, 0.0).topk(K, dim=-1, sorted=False)
    return dense(weights * SCALE, ids)


def _greedy(a: Around, x: Tensor) -> Tensor:
    weights, ids = torch.topk(a.router(x).float().softmax(-1), K, dim=-1)
    return dense(weights, ids)


def _normalized(a: Around, x: Tensor) -> Tensor:
    scores = torch.sigmoid(a.router(x))
    weights, ids = scores.topk(K, dim=-1)
    return dense(weights / (weights.sum(-1, keepdim=True) + 1e-20), ids)


def _biased_without_groups(a: Around, x: Tensor) -> Tensor:
    scores = torch.sigmoid(a.router(x))
    ids = torch.topk(scores + a.bias, K, dim=-1)[1]
    return dense(torch.gather(scores, -1, ids) * SCALE, ids)


def _bias_first(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    ids = torch.topk(a.bias + scores, K, dim=-1).indices
    return dense(SCALE * scores.gather(-1, ids), ids)


def _where(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    choice = scores + a.bias
    best = _grouped(choice).topk(2, dim=-1)[0].sum(-1)
    mask = torch.zeros_like(best).scatter(-1, best.topk(KEPT, dim=-1)[1], 1.0)
    wide = mask[..., None].expand(_grouped(choice).shape).reshape(choice.shape)
    ids = torch.where(wide.bool(), choice, float("-inf")).topk(K, dim=-1)[1]
    return dense(scores.gather(-1, ids), ids)


def _normalized_by_all(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    weights, ids = scores.topk(K, dim=-1)
    return dense(weights / (scores.sum(-1, keepdim=True) + 1e-20), ids)


def _visible_epsilon(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    weights, ids = scores.topk(K, dim=-1)
    return dense(weights / (weights.sum(-1, keepdim=True) + 0.1), ids)


RIGHT = spelled(
    "route_topk",
    {
        "as-deepseek-v3": _as_deepseek_v3,
        "as-deepseek-v2": _as_deepseek_v2,
        "greedy": _greedy,
        "normalized": _normalized,
        "biased-without-groups": _biased_without_groups,
        "bias-first": _bias_first,
        "where": _where,
        "divided-by-all-afterwards": _normalized_by_all,
        "divided-with-epsilon-afterwards": _visible_epsilon,
    },
)


def _weights_of_the_choice(a: Around, x: Tensor) -> Tensor:
    choice = a.router(x).sigmoid() + a.bias
    weights, ids = choice.topk(K, dim=-1)
    return dense(weights, ids)


def _bias_before_scores(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    ids = (a.router(x) + a.bias).sigmoid().topk(K, dim=-1)[1]
    return dense(scores.gather(-1, ids), ids)


def _weights_of_logits(a: Around, x: Tensor) -> Tensor:
    logits = a.router(x)
    ids = logits.sigmoid().topk(K, dim=-1)[1]
    return dense(logits.gather(-1, ids), ids)


def _smallest(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    ids = (-scores).topk(K, dim=-1)[1]
    return dense(scores.gather(-1, ids), ids)


def _softmax_over_tokens(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).softmax(1)
    weights, ids = scores.topk(K, dim=-1)
    return dense(weights, ids)


def _half_precision(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).to(torch.bfloat16).sigmoid()
    weights, ids = scores.topk(K, dim=-1)
    return dense(weights.to(x.dtype), ids)


def _strided_groups(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    choice = scores + a.bias
    best = choice.view(*x.shape[:2], EXPERTS // GROUPS, GROUPS).mT.topk(2, dim=-1)[0].sum(-1)
    ids = _kept(choice, best, float("-inf")).topk(K, dim=-1)[1]
    return dense(scores.gather(-1, ids), ids)


def _kept_by_smallest_group(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    choice = scores + a.bias
    best = _grouped(choice).topk(2, dim=-1)[0].sum(-1)
    ids = _kept(choice, -best, float("-inf")).topk(K, dim=-1)[1]
    return dense(scores.gather(-1, ids), ids)


def _mask_inverted(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).softmax(-1)
    best = _grouped(scores).amax(-1)
    mask = torch.ones_like(best).scatter(-1, best.topk(KEPT, dim=-1)[1], 0.0)
    wide = mask[..., None].expand(_grouped(scores).shape).reshape(scores.shape)
    weights, ids = scores.masked_fill(~wide.bool(), 0.0).topk(K, dim=-1)
    return dense(weights, ids)


def _groups_by_another_score(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid()
    best = _grouped(a.router(x)).topk(2, dim=-1)[0].sum(-1)
    ids = _kept(scores + a.bias, best, float("-inf")).topk(K, dim=-1)[1]
    return dense(scores.gather(-1, ids), ids)


def _softmax_of_the_chosen(a: Around, x: Tensor) -> Tensor:
    logits, ids = a.router(x).topk(K, dim=-1)
    return dense(logits.softmax(-1), ids)


def _scaled_before_choice(a: Around, x: Tensor) -> Tensor:
    scores = a.router(x).sigmoid() * SCALE
    ids = (scores + a.bias).topk(K, dim=-1)[1]
    return dense(scores.gather(-1, ids), ids)


NEAR = spelled(
    "route_topk",
    {
        "weights-of-the-choice": _weights_of_the_choice,
        "bias-before-scores": _bias_before_scores,
        "weights-of-logits": _weights_of_logits,
        "smallest": _smallest,
        "softmax-over-tokens": _softmax_over_tokens,
        "half-precision": _half_precision,
        "strided-groups": _strided_groups,
        "kept-by-smallest-group": _kept_by_smallest_group,
        "mask-inverted": _mask_inverted,
        "groups-by-another-score": _groups_by_another_score,
        "softmax-of-the-chosen": _softmax_of_the_chosen,
        "scaled-before-choice": _scaled_before_choice,
    },
)
