"""Names of ONNX values: readable and unique within one body."""

from collections.abc import Iterable


class Names:
    """Hands out names; a name that is taken gets a number."""

    def __init__(self, reserved: Iterable[str] = ()) -> None:
        self._taken = set(reserved)
        self._next: dict[str, int] = {}

    def fresh(self, wanted: str) -> str:
        """Return ``wanted``, or ``wanted`` with the lowest free number behind it."""
        name = wanted
        while name in self._taken:
            self._next[wanted] = self._next.get(wanted, 0) + 1
            name = f"{wanted}_{self._next[wanted]}"
        self._taken.add(name)
        return name
