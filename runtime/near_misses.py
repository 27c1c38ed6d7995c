"""What the passes say of the place that something else refuses."""

from collections.abc import Generator, Sequence
from contextlib import contextmanager

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.passes.remark import Remark


@contextmanager
def near_misses_noted(remarks: Sequence[Remark]) -> Generator[None]:
    """Give errors raised inside the near misses of their place as notes.

    An operation that no kernel takes is often part of a larger one that a pass nearly recognised.
    An error with notes of its own keeps those.

    Args:
        remarks: Of passes; read when an error comes.
    """
    try:
        yield
    except GraphError as error:
        if not error.notes:
            error.notes = near_misses_at(error.location, remarks)
        raise


def near_misses_at(location: Location, remarks: Sequence[Remark]) -> tuple[str, ...]:
    """Return remarks on a line, then those on other lines of the module called there.

    Each reason stands once, with its first place. There are none if the place is not known.
    """
    if location == UNKNOWN:
        return ()
    there = [each for each in remarks if each.location == location]
    if location.module:
        there += [each for each in remarks if each.location.module == location.module]
    first: dict[str, Remark] = {}
    for each in there:
        first.setdefault(each.text, each)
    return tuple(map(str, first.values()))
