"""How far the results of a step are from the truth, and from those of the program before."""

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.run_on_tokens import Form, form_of
from ascendfx.passes.same_bits import same_in_format
from ascendfx.passes.verification.follow_truth import Step, Truth
from ascendfx.passes.verification.run_with_noise import Noisy, tolerance

LOGITS = -1
"""Stands for the number of a call: what the entry itself makes after the last one."""

GROWTH = 32.0
"""How much more than the captured program one may round; our own pipeline stays below two."""


@dataclass(frozen=True, slots=True)
class Difference:
    """One compared tensor.

    Attributes:
        step: Number of the step.
        call: Number of the call of the entry, or `LOGITS`.
        result: Which result of the call.
        graph: The function that made it.
        max: Largest absolute difference; infinite if one of both is no number.
        squares: Sum of the squares of the differences.
        count: Number of elements.
        bound: What rounding explains.
    """

    step: int
    call: int
    result: int
    graph: str
    max: float
    squares: float
    count: int
    bound: float

    @property
    def broken(self) -> bool:
        """Whether rounding does not explain the difference."""
        return self.max > self.bound

    @property
    def excess(self) -> float:
        """Difference by bound, for an order."""
        return self.max / self.bound if self.bound else (np.inf if self.max else 0.0)


def compare_with_truth(number: int, step: Step, truth: Truth) -> Iterator[Difference]:
    """Yield the results of each layer, then logits and states, compared with the truth's."""
    calls = step.run.calls
    followed = len(calls) == len(truth.calls)
    for index, (call, known) in enumerate(zip(calls, truth.calls, strict=False)):
        for result, (own, true) in enumerate(zip(call.outputs, known, strict=False)):
            part = truth.part(true[0], step.pick)
            if followed and part is not None and part.shape == own[0].shape:
                bound = explained(own, true)
                where = (number, index, result, call.call.callee)
                yield difference(where, own[0], part, bound)
    entry = step.runner.program.name
    expected = (step.logits(truth), *step.states(truth))
    for place, true in enumerate(expected, start=logits_place(step)):
        own = step.run.outputs[place]
        bound = explained(own, true)
        yield difference((number, LOGITS, place, entry), own[0], true[0], bound)


def explained(own: Noisy, true: Noisy) -> float:
    """Return how far rounding can move a result from the truth.

    A program answers for its own rounding only as far as that is of the size that the captured one
    has: ``(x + 1e6) - 1e6`` explains every error it makes.
    """
    known = tolerance(true)
    allowed = min(tolerance(own), GROWTH * known) if known else tolerance(own)
    return allowed + known


def logits_place(step: Step) -> int:
    """Return which output of the entry the logits are: a serving form returns tokens first.

    What a draft layer returns beside them, and the hidden states for it, stands behind.
    """
    return 1 if form_of(step.runner.program) in (Form.SERVING, Form.STEP) else 0


def same_results(before: Step, after: Step) -> bool | None:
    """Say whether two steps have the same bits, or None if they cannot be compared.

    Compared in float64 and, where that differs, rounded to the formats of the results.
    """
    if len(before.run.calls) != len(after.run.calls):
        return None
    for one, other in zip(before.run.calls, after.run.calls, strict=True):
        equal = _all_same(one.outputs, other.outputs, [kind.dtype for kind in other.call.types])
        if equal is not True:
            return equal
    formats = [kind.dtype for kind in after.runner.program.main.output_types]
    return _all_same(before.run.outputs, after.run.outputs, formats)


def _all_same(
    before: tuple[Noisy, ...], after: tuple[Noisy, ...], formats: list[DType]
) -> bool | None:
    if [v.shape for v, _ in before] != [v.shape for v, _ in after]:
        return None
    return all(
        same_in_format(dtype, a, b)
        for (a, _), (b, _), dtype in zip(before, after, formats, strict=True)
    )


def difference(
    where: tuple[int, int, int, str], own: Array, true: Array, bound: float
) -> Difference:
    """Return how far two arrays are from each other; ``where`` is step, call, result and graph."""
    if own.shape != true.shape:
        return Difference(*where, np.inf, np.inf, true.size, bound)
    with np.errstate(invalid="ignore"):
        same = (own == true) | (np.isnan(own) & np.isnan(true))
        gap = np.where(same, 0.0, np.abs(own - true))
    gap = np.where(np.isnan(gap), np.inf, gap)
    largest = float(gap.max(initial=0.0))
    return Difference(*where, largest, float(np.sum(gap * gap)), gap.size, bound)
