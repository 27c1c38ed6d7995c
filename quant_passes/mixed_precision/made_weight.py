"""What a choice makes of a matrix and of its inputs."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.quant_passes.checkpoint.saved_weight import Activation
from ascendfx.quant_passes.mixed_precision.unit import Piece
from ascendfx.quant_passes.policy.recipe import SitePolicy
from ascendfx.quant_passes.quantize_weights import static_inputs
from ascendfx.quant_passes.statistics import InputStatistics


@dataclass(frozen=True, slots=True, eq=False)
class MadeWeight:
    """A matrix as numbers of its codes.

    Attributes:
        numbers: ``[out, in]``, float32.
        activation: What its inputs become.
    """

    numbers: Array
    activation: Activation


def made_weight(
    piece: Piece,
    policies: Sequence[SitePolicy | None],
    weight: Array,
    inputs: InputStatistics | None,
) -> MadeWeight:
    """Return what becomes of a piece.

    Args:
        piece: Which one.
        policies: Of each of its parts.
        weight: As it is, ``[out, in]``.
        inputs: What calibration knows of its inputs.

    Raises:
        GraphError: `nothing-to-choose`: its parts would have inputs of two forms; what algorithms
            raise.
    """
    found: list[Array] = []
    for name, policy, part in zip(
        piece.names, policies, np.split(weight, len(piece.names)), strict=True
    ):
        if policy is None:
            found.append(part)
            continue
        known = inputs if policy.needs else None
        try:
            made = policy.algorithm.quantize(part, policy.spec, known)
        except GraphError as error:
            raise replace(error, notes=(*error.notes, f"the weight is `{name}`")) from error
        found.append(made.tensor.decode())
    forms = {policy.activation if policy else None for policy in policies}
    if len(forms) > 1:
        reason = f"parts of `{piece.site}` would read inputs of two forms, and they are one product"
        raise GraphError("nothing-to-choose", reason, hint="give both the same `activation`")
    (form,) = forms
    activation: Activation = static_inputs(piece.names[0], inputs) if form == "static" else None
    activation = "dynamic" if form == "dynamic" else activation
    return MadeWeight(np.concatenate(found).astype(np.float32, copy=False), activation)
