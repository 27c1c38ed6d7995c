"""Named row counts: which slot of the ``sizes`` tensor holds a size, and its capacity."""

from ascendfx.codegen.ascendc.kernel import DeviceSize
from ascendfx.codegen.ascendc.lowering.view import CapacityOf
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.packed_rows import PACKED_ROWS
from ascendfx.ir.size import Dim, bind_size, named_size, names_in, substitute_size
from ascendfx.ir.step_state import Size

SLOTS = {
    "rows": int(Size.ROWS),
    "requests": int(Size.REQUESTS),
    "context": int(Size.CONTEXT),
    str(PACKED_ROWS): int(Size.PACKED_ROWS),
}
"""Slot of each named size."""

PAIR_SLOTS = {
    "rows": int(Size.PAIRS),
    "requests": int(Size.REQUEST_PAIRS),
    str(PACKED_ROWS): int(Size.PACKED_PAIRS),
}
"""Slot of its pairs with experts: of all rows, or of one row for each request."""
_SUFFIXES = ("", "_requests", "_context", "_pairs", "_request_pairs", "_packed", "_packed_pairs")
_PAIR_SUFFIXES = {
    Size.PAIRS: "",
    Size.REQUEST_PAIRS: "_requests",
    Size.PACKED_PAIRS: "_packed",
    # With one expert per row its pairs are the rows.
    Size.ROWS: "",
    Size.REQUESTS: "_requests",
    Size.PACKED_ROWS: "_packed",
}


def row_size(size: Dim, capacity: CapacityOf, pairs_per_row: int) -> DeviceSize:
    """Return where the device finds ``size``.

    Raises:
        GraphError: The size is neither a named one nor rows of it times the experts per row.
    """
    reduced = size
    if len(names_in(size)) > 1:
        units: dict[str, Dim] = {name: 1 for name in names_in(size) if capacity[name] == 1}
        reduced = substitute_size(size, units)
    most = bind_size(reduced, capacity)
    for name, slot in SLOTS.items():
        if reduced == named_size(name):
            return DeviceSize(slot, most)
    for name, slot in PAIR_SLOTS.items():
        if pairs_per_row and reduced == pairs_per_row * named_size(name):
            return DeviceSize(slot, most)
    raise GraphError(
        code="unknown-row-count",
        reason=f"the device is not told how many rows `{size}` are",
        hint=f"known: {', '.join(SLOTS)}; rows and requests * {pairs_per_row or 'experts per row'}",
    )


def row_suffix(rows: DeviceSize) -> str:
    """Return what a kernel's name tells about its rows: nothing for those of tokens."""
    return _SUFFIXES[rows.slot]


def pair_suffix(pairs: DeviceSize) -> str:
    """Return what a kernel's name tells about the rows of its pairs: nothing for all of them."""
    return _PAIR_SUFFIXES[Size(pairs.slot)]


def is_row_size(size: Dim, capacity: CapacityOf, pairs_per_row: int) -> bool:
    """Return whether `row_size` accepts ``size``."""
    try:
        row_size(size, capacity, pairs_per_row)
    except GraphError:
        return False
    return True
