"""What the emulator checks besides computing values; every switch is a compile-time flag."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Checks:
    """Switches of one build; a kernel library is built per combination.

    Attributes:
        values: Compute values. Off: checks and counters only, outputs stay as they were.
        races: Report conflicting accesses that nothing orders.
        poison: Report reads of memory that was never written.
    """

    values: bool = True
    races: bool = True
    poison: bool = True

    def flags(self) -> tuple[str, ...]:
        """Return the preprocessor definitions of this combination."""
        return (
            f"-DEMULATOR_VALUES={int(self.values)}",
            f"-DEMULATOR_RACES={int(self.races)}",
            f"-DEMULATOR_POISON={int(self.poison)}",
        )
