"""How far each layer of a program is from the truth, when it starts from the truth."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.passes.verification.compare_step import LOGITS, Difference


@dataclass(frozen=True, slots=True)
class LayerError:
    """One call of the entry, or what the entry makes after the last one.

    Attributes:
        module: Path of the layer in the model; ``logits`` for the end.
        max: Largest absolute difference.
        rms: Root of the mean square of the differences.
        bound: What rounding explains, at the result that comes nearest to it.
        broken: Whether rounding does not explain some result.
    """

    module: str
    max: float
    rms: float
    bound: float
    broken: bool


def layer_errors(program: Program, differences: Sequence[Difference]) -> tuple[LayerError, ...]:
    """Return the error of each call of the entry, in order, the logits last.

    Args:
        program: The compared one.
        differences: Of all steps; a call that could not be compared has none.
    """
    calls = [node for node in program.main.nodes if isinstance(node.op, Call)]
    found: dict[int, list[Difference]] = {}
    for each in differences:
        found.setdefault(each.call, []).append(each)
    return tuple(
        _layer_error(
            "logits" if call == LOGITS else calls[call].location.module or f"call {call}",
            found[call],
        )
        for call in sorted(found, key=lambda call: (call == LOGITS, call))
    )


def _layer_error(module: str, differences: Sequence[Difference]) -> LayerError:
    count = sum(each.count for each in differences)
    return LayerError(
        module=module,
        max=max(each.max for each in differences),
        rms=math.sqrt(sum(each.squares for each in differences) / max(count, 1)),
        bound=max(differences, key=lambda each: each.excess).bound,
        broken=any(each.broken for each in differences),
    )
