"""What the tests of bad input share beside fixtures."""

from collections.abc import Callable
from dataclasses import dataclass

from ascendfx.runtime.limits import Limits

LIMITS = Limits(max_batch=2, max_context=128, prefill_chunk=8, cache_blocks=2)
WEIGHTS = "model.safetensors"


@dataclass(frozen=True, slots=True)
class Ended:
    """What a command left behind.

    Attributes:
        code: Exit code.
        out: Standard output.
        error: Standard error.
    """

    code: int
    out: str
    error: str


Command = Callable[..., Ended]
