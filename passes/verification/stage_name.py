"""Names of the stages of a compilation: whose programs, and for which plan."""

from dataclasses import dataclass

SERVING = "serving"
"""The stage of the main model that those of the plans go on from."""
DRAFT_STAGE = "draft"
"""With what the names of the stages of draft layers begin."""


@dataclass(frozen=True, slots=True)
class StageName:
    """A stage.

    Attributes:
        layer: Number of the draft layer; None: the main model.
        plan: The plan; empty: the programs that all plans go on from.
    """

    layer: int | None
    plan: str

    def __str__(self) -> str:
        if self.layer is None:
            return self.plan or SERVING
        number = str(self.layer) if self.layer else ""
        return f"{DRAFT_STAGE}{number}{'-' if self.plan else ''}{self.plan}"


def parse_stage(name: str) -> StageName:
    """Return what a name says."""
    first, _, plan = name.partition("-")
    number = first.removeprefix(DRAFT_STAGE)
    if number != first and (not number or number.isdecimal()):
        return StageName(int(number or 0), plan)
    return StageName(None, "" if name == SERVING else name)
