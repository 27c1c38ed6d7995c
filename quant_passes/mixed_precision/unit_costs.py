"""What choices cost: bytes that are stored, and bytes that a step reads for each token."""

from collections.abc import Callable, Sequence

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.planned_tensor import CheckpointForm, PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.mixed_precision.unit import Choice, Piece, Unit
from ascendfx.quant_passes.policy.recipe import SitePolicy

PieceCost = Callable[[Piece, Sequence[SitePolicy | None]], float]
"""What a piece costs if its parts become what policies say."""


def costs_of(unit: Unit, cost: PieceCost) -> tuple[float, ...]:
    """Return the cost of each choice of a unit: the sum over its pieces."""

    def total(choice: Choice) -> float:
        return sum(cost(piece, unit.policies_of(choice, piece)) for piece in unit.pieces)

    return tuple(total(choice) for choice in unit.choices)


def stored_bytes(form: CheckpointForm, dtype: DType) -> PieceCost:
    """Return the cost in bytes of the tensors in a form of checkpoint.

    Args:
        form: The form.
        dtype: Format of weights that are kept.
    """

    def cost(piece: Piece, policies: Sequence[SitePolicy | None]) -> int:
        planned = _planned(piece, policies, dtype)
        return sum(part.bytes for tensor in planned for part in form.parts(tensor))

    return cost


def bytes_per_token(form: CheckpointForm, dtype: DType, *, chosen: int, rows: int = 1) -> PieceCost:
    """Return the cost in bytes that a decode step reads of the weights, over its rows.

    Of stacked experts that is the expected share which ``rows`` tokens choose, each of them
    ``chosen`` at random: ``1 - (1 - chosen / experts) ^ rows``.

    Args:
        form: As it is stored.
        dtype: Format of weights that are kept.
        chosen: Experts per token.
        rows: Tokens of a step.
    """
    stored = stored_bytes(form, dtype)

    def cost(piece: Piece, policies: Sequence[SitePolicy | None]) -> float:
        return stored(piece, policies) * read_share(piece, chosen, rows) / rows

    return cost


def read_share(piece: Piece, chosen: int, rows: int) -> float:
    """Return which share of the steps reads a piece: an expert, those that choose it."""
    return 1.0 if piece.experts == 1 else 1 - (1 - min(1, chosen / piece.experts)) ** rows


def is_storable(form: CheckpointForm, dtype: DType) -> Callable[..., bool]:
    """Return whether a form has a place for what becomes of the parts of a piece."""

    def storable(piece: Piece, policies: Sequence[SitePolicy | None]) -> bool:
        planned = _planned(piece, policies, dtype)
        try:
            for tensor in planned:
                form.parts(tensor)
            form.check(planned)
        except GraphError as error:
            if error.code == "not-storable":
                return False
            raise
        return True

    return storable


def _planned(
    piece: Piece, policies: Sequence[SitePolicy | None], dtype: DType
) -> tuple[PlannedTensor, ...]:
    return tuple(
        PlannedTensor(name, piece.part_shape, dtype, policy.scheme if policy else None, _not_made)
        for name, policy in zip(piece.names, policies, strict=True)
    )


def _not_made() -> SavedWeight:
    raise AssertionError("only the sizes of these tensors are asked for")
