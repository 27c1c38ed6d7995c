"""How long work says that it goes on; the library itself stays silent."""

from collections.abc import Callable

Progress = Callable[[str, int, int], None]
"""``progress(what, done, total)``: called as work goes on; ``done == total`` ends ``what``."""


def silent(what: str, done: int, total: int) -> None:
    """Show nothing."""
