"""Weights under which errors do not grow from layer to layer."""

from collections.abc import Mapping

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.passes.random_weights import checkpoint_types


def calmed(program: Program, tensors: Mapping[str, Array]) -> dict[str, Array]:
    """Return the tensors with matrices so small that the residual stream dominates.

    The first one, the embedding, stays as it is: the stream comes from it.
    """
    _, *others = checkpoint_types(program).items()
    small = {name: tensors[name] / 8 for name, kind in others if kind.rank > 1}
    return {**tensors, **small}
