"""How the tokens of a request are chosen."""

import math
from dataclasses import dataclass
from numbers import Real

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import OPTION_COLUMNS, Option, State
from ascendfx.runtime.arguments import wrong_type
from ascendfx.runtime.checked_limit import checked_limit

_WORD = 1 << 32


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Temperature, then top-k, top-p and min-p, in this order; the default is greedy.

    What is drawn depends on the seed, the position of the token and the model's numbers, and on
    nothing else: not on batch mates, drafts, or how many steps ran together. Requests with the
    same prompt and seed therefore give the same text; for several texts of one prompt, pass
    several seeds.

    Attributes:
        temperature: Logits are divided by it; 0 takes the most likely token.
        top_k: So many of the most likely tokens stay; 0: all.
        top_p: The fewest most likely tokens with so much probability stay; 1: all.
        min_p: Tokens stay that have at least this share of the largest probability; 0: all.
        seed: 0 to 2^64 - 1.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0

    def __post_init__(self) -> None:
        for name, low, high, wanted in (
            ("temperature", 0.0, math.inf, "at least 0 and finite"),
            ("top_p", 0.0, 1.0, "above 0 and at most 1"),
            ("min_p", 0.0, 1.0, "between 0 and 1"),
        ):
            value = _number(name, getattr(self, name))
            # The device works in f32, where a number of Python may be 0 or infinite.
            held = float(np.float32(min(max(value, -_LARGEST), _LARGEST)))
            open_end = name == "top_p"
            inside = math.isfinite(value) and abs(value) <= _LARGEST and low <= value <= high
            if not inside or (open_end and held == 0.0):
                raise GraphError(
                    "bad-sampling",
                    f"{name} must be {wanted}, got {value}",
                    hint="temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 turn a cut off",
                )
            object.__setattr__(self, name, value)
        for name, most in (("top_k", 2**31 - 1), ("seed", 2**64 - 1)):
            value = checked_limit(name, getattr(self, name), least=0)
            if value > most:
                raise GraphError(
                    "bad-sampling", f"{name} must be at most {most}, got {value}", hint="lower it"
                )
            object.__setattr__(self, name, value)

    def options(self) -> NDArray[np.float32]:
        """Return the row of ``options``."""
        row = np.zeros(OPTION_COLUMNS, np.float32)
        row[Option.TEMPERATURE] = self.temperature
        row[Option.TOP_K] = min(self.top_k, 1 << 24)  # f32 counts no further; no vocabulary does
        row[Option.TOP_P] = self.top_p
        row[Option.MIN_P] = self.min_p
        row[Option.REPETITION] = 1.0
        return row

    def write_seed(self, state: NDArray[np.int32]) -> None:
        """Write the seed to a row of ``state``."""
        words = np.array([self.seed % _WORD, self.seed // _WORD], np.uint32).view(np.int32)
        state[[State.SEED_LOW, State.SEED_HIGH]] = words


_LARGEST = float(np.finfo(np.float32).max)


def _number(name: str, value: object) -> float:
    if isinstance(value, bool) or not isinstance(value, Real | np.floating):
        raise wrong_type(name, value, "a number")
    return float(value)
