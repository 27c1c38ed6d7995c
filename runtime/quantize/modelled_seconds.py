"""Modelled time of the products by a matrix in a decode step, for each form that it may have."""

from collections.abc import Sequence
from math import prod

from ascendfx.codegen.ascendc.cost_model import busy_seconds
from ascendfx.codegen.ascendc.target import Target
from ascendfx.codegen.ascendc.work import StepSizes, Work
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.insertion.site_form import HALF_BYTE
from ascendfx.quant_passes.mixed_precision.unit import Piece
from ascendfx.quant_passes.mixed_precision.unit_costs import PieceCost, read_share
from ascendfx.quant_passes.policy.recipe import SitePolicy


def modelled_seconds(target: Target, dtype: DType, *, chosen: int, rows: int) -> PieceCost:
    """Return the cost in seconds of a step, launches left out: no choice changes their number.

    Kernels multiply codes where inputs are codes, too, up to four bits in pairs of a byte by both
    digits of the inputs; elsewhere numbers, in the format of the model, whatever is stored.

    Args:
        target: The chip.
        dtype: In which the model computes.
        chosen: Experts per token.
        rows: Tokens of the step.
    """
    step = StepSizes(rows, rows, 1)

    def cost(piece: Piece, policies: Sequence[SitePolicy | None]) -> float:
        share = read_share(piece, chosen, rows)
        each = rows if piece.experts == 1 else rows * min(1, chosen / piece.experts)
        total = 0.0
        for policy in policies:
            made = _multiplied(policy, dtype)
            numbers = prod(piece.part_shape)
            digits = 2 if made is DType.I4X2 else 1
            work = Work(
                products=round(numbers * each * digits),
                format=made,
                bytes=round(numbers * made.bytes / digits * share),
            )
            total += max(busy_seconds(work, target, step).values())
        return total

    return cost


def _multiplied(policy: SitePolicy | None, dtype: DType) -> DType:
    """Return the format in which a program multiplies by a weight."""
    if policy is None or policy.activation is None or not isinstance(policy.spec.format, Integer):
        return dtype
    return DType.I4X2 if policy.spec.format.bits <= HALF_BYTE else DType.I8
