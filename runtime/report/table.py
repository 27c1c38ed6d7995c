"""Values that are stored once and named by a number."""

from dataclasses import dataclass, field
from typing import Any


@dataclass
class Table:
    """Values by number, each once, in order of first use."""

    values: list[Any] = field(default_factory=list[Any])
    _numbers: dict[Any, int] = field(default_factory=dict[Any, int])

    def number(self, key: Any, value: Any = None) -> int:
        """Return the number of ``key``; ``value`` is what the table holds for it."""
        if key not in self._numbers:
            self._numbers[key] = len(self.values)
            self.values.append(key if value is None else value)
        return self._numbers[key]
