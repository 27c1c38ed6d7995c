"""Choice of experts for each token."""

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.op import Array, Op
from ascendfx.ir.pointwise import apply_function, holds_symbols
from ascendfx.ir.tensor_type import DType, TensorType


@dataclass(frozen=True, slots=True)
class RouteTopk(Op):
    r"""Scores, group limit, top-k and weights of a mixture-of-experts router.

    With ``p = sigmoid(logits)`` or ``softmax(logits)`` and ``c = p + bias`` (``c = p`` without):
    the experts stand in ``groups`` equal groups; a group scores the sum of its two largest ``c``
    (``top2_sum``) or its largest (``max``); outside the ``topk_groups`` best groups ``c`` becomes
    ``masked_value``; the ``k`` largest ``c`` are chosen, ties to the lower index; the weights are
    the *unbiased* ``p`` of the chosen, divided by ``sum + 1e-20`` when ``normalize``, times
    ``scale``. Source: DeepSeek-V3, arXiv 2412.19437, section 2.1.2, eqs. 12 to 16; DeepSeek-V2,
    arXiv 2405.04434, section 2.2.2.

    Operands: ``logits [*b, e]``, with ``biased`` also ``bias [e]``. Results: weights ``[*b, k]`` in
    the format of the logits, experts ``[*b, k]`` i64, descending in ``c``.

    Attributes:
        k: Experts per token.
        scoring: ``"sigmoid"`` or ``"softmax"``.
        biased: Whether a correction bias is given.
        groups: Number of groups; 1 for no limit.
        topk_groups: Groups that stay.
        group_score: ``"top2_sum"`` or ``"max"``.
        masked_value: The model's own constant for groups that do not stay.
        normalize: Whether the weights of a token sum to ``scale``.
        scale: Factor of the weights.
    """

    mnemonic: ClassVar[str] = "route_topk"

    k: int
    scoring: str
    biased: bool = False
    groups: int = 1
    topk_groups: int = 1
    group_score: str = "max"
    masked_value: float = 0.0
    normalize: bool = False
    scale: float = 1.0

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return weights and experts.

        Raises:
            OpTypeError: The numbers of experts, groups and k do not fit, or an option is unknown.
        """
        logits = operands[0]
        experts = logits.shape[-1] if logits.rank else 0
        if self.scoring not in ("sigmoid", "softmax") or self.group_score not in (
            "top2_sum",
            "max",
        ):
            raise OpTypeError(f"route_topk: unknown {self.scoring} or {self.group_score}")
        if (
            not isinstance(experts, int)
            or self.groups < 1
            or experts % self.groups
            or not 1 <= self.topk_groups <= self.groups
        ):
            raise OpTypeError(
                f"route_topk: {self.groups} groups ({self.topk_groups} kept) do not fit {logits}"
            )
        if self.k > experts // self.groups * self.topk_groups and self.masked_value != 0.0:
            raise OpTypeError(f"route_topk: {self.k} experts are more than the kept groups have")
        if len(operands) != 1 + self.biased or (self.biased and operands[1].shape != (experts,)):
            raise OpTypeError(f"route_topk: the bias does not fit {logits}")
        shape = (*logits.shape[:-1], self.k)
        return (logits.with_shape(shape), TensorType(DType.I64, shape))

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Route."""
        logits = operands[0]
        if self.scoring == "sigmoid":
            scores = 1 / (1 + apply_function("exp", -logits))
        else:
            shift = 0 if holds_symbols(logits) else np.max(logits, axis=-1, keepdims=True)
            e = apply_function("exp", logits - shift)
            scores = e / np.sum(e, axis=-1, keepdims=True)
        choice = self._limit_groups(scores + operands[1] if self.biased else scores)
        ids = np.argsort(-choice, axis=-1, kind="stable")[..., : self.k]
        weights = np.take_along_axis(scores, ids, -1)
        if self.normalize:
            weights = weights / (np.sum(weights, axis=-1, keepdims=True) + 1e-20)
        return weights * self.scale, ids

    def _limit_groups(self, choice: Array) -> Array:
        if self.groups == 1:
            return choice
        grouped = choice.reshape(*choice.shape[:-1], self.groups, -1)
        best = np.sort(grouped, axis=-1)[..., -2 if self.group_score == "top2_sum" else -1 :]
        order = np.argsort(-np.sum(best, axis=-1), axis=-1, kind="stable")[..., : self.topk_groups]
        kept = np.zeros(grouped.shape[:-1], bool)
        np.put_along_axis(kept, order, values=True, axis=-1)
        return np.where(kept[..., None], grouped, self.masked_value).reshape(choice.shape)
