"""What a pass says of a place that it left as it is."""

from dataclasses import dataclass

from ascendfx.ir.location import UNKNOWN, Location


@dataclass(frozen=True, slots=True)
class Remark:
    """A missed opportunity.

    Attributes:
        text: Who says it and why nothing was done, for example ``swiglu: two readers``.
        location: The line of the model; unknown if it is about a whole function.
    """

    text: str
    location: Location = UNKNOWN

    def __str__(self) -> str:
        return self.text if self.location == UNKNOWN else f"{self.text} at {self.location}"
