"""What a run of a plan asked of the machine."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class RunCounts:
    """Counted by the launcher, so that a runner cannot leave anything out.

    Attributes:
        launches: Kernels launched.
        copies: Copies between host and device.
        syncs: Times that the host waited for the device.
    """

    launches: int
    copies: int
    syncs: int
