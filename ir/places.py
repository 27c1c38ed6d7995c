"""Types that go with a table of states: one number per place, and rows of places."""

from ascendfx.ir.step_state import STATE_COLUMNS
from ascendfx.ir.tensor_type import DType, TensorType


def places_of(state: TensorType) -> TensorType | None:
    """Return the type of one number per place; None if ``state`` is no table of states."""
    if state.dtype is not DType.I32 or state.rank != 2 or state.shape[1] != STATE_COLUMNS:
        return None
    return TensorType(DType.I32, state.shape[:1])


def fits_places(rows: TensorType, places: TensorType, drafts: int) -> bool:
    """Return whether ``rows`` has the rows of ``places``, as far as sizes are numbers."""
    if rows.dtype is not DType.I32 or rows.rank != 1 or drafts < 0:
        return False
    count, each = rows.shape[0], places.shape[0]
    known = isinstance(count, int) and isinstance(each, int)
    return not known or count == each * (drafts + 1)
