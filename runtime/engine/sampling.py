"""How the tokens of a request are chosen."""

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import OPTION_COLUMNS, Option, State
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.engine.checked_number import check_within
from ascendfx.runtime.engine.verification import (
    Verification,
    checked_verification,
    read_verification,
    write_verification,
)

_WORD = 1 << 32
_CUTS = "temperature 0 is greedy; top_k 0, top_p 1 and min_p 0 turn a cut off"
_PENALTIES = "repetition_penalty 1, presence_penalty 0 and frequency_penalty 0 turn a penalty off"

_NUMBERS = (
    ("temperature", 0.0, math.inf, _CUTS),
    ("top_p", 0.0, 1.0, _CUTS),
    ("min_p", 0.0, 1.0, _CUTS),
    ("repetition_penalty", 0.01, 100.0, _PENALTIES),
    ("presence_penalty", -2.0, 2.0, _PENALTIES),
    ("frequency_penalty", -2.0, 2.0, _PENALTIES),
)
"""Name, least, largest, and what to do; beyond them logits may become infinite in f32."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Sampling:
    """Penalties, temperature, then top-k, top-p and min-p, in this order; the default is greedy.

    With ``verification="exact"``, what is drawn depends on the seed, the position of the token and
    the model's numbers, and on nothing else: not on batch mates, drafts, or how many steps ran
    together. Requests with the same prompt and seed therefore give the same text; for several texts
    of one prompt, pass several seeds.

    How drafts are verified, and what it guarantees:

    * ``"exact"``: a draft is accepted if it is the token that would have been drawn. The text is
      the same with any drafts, and without (plans of other sizes may round otherwise, see
      runtime/engine/README.md).
    * ``"rejection"``, ``"block"``: drafts are drawn from the draft layer, and accepted so that the
      text is *distributed* as without drafts; more of them are. Which text a seed gives depends on
      the drafts, and so on pauses for want of cache blocks. ``"block"`` decides about all drafts of
      a step together and accepts at least as many tokens per step, on average, as
      ``"rejection"``. Greedy texts are those of ``"exact"``.
    * `Typical`, `Relaxed`, or their names: LOSSY. Drafts are accepted that the model finds likely
      enough. The text is another one, also a greedy one, and how good is not guaranteed.

    Without drafts they are all the same.

    Attributes:
        temperature: Logits are divided by it; 0 takes the most likely token.
        top_k: So many of the most likely tokens stay; 0: all.
        top_p: The fewest most likely tokens with so much probability stay; 1: all.
        min_p: Tokens stay that have at least this share of the largest probability; 0: all.
        seed: 0 to 2^64 - 1.
        repetition_penalty: Positive logits of all tokens of prompt and text are divided by it,
            negative ones multiplied, 0.01 to 100; 1: nothing.
        presence_penalty: Is taken off the logits of tokens that the text has, without the prompt,
            -2 to 2.
        frequency_penalty: The same, times how often the text has the token, -2 to 2.
        verification: Verification of drafts (of passes: ``compile(verify=...)``; of files:
            ``load(verify=...)``): ``"exact"``, ``"rejection"``, ``"block"``, or a lossy one.
    """

    temperature: float = 0.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    seed: int = 0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    verification: Verification = "exact"

    def __post_init__(self) -> None:
        for name, low, high, hint in _NUMBERS:
            value = check_within(name, getattr(self, name), low, high, hint=hint)
            if name == "top_p" and not value:
                raise GraphError(
                    "bad-sampling", f"top_p must be above 0 and at most 1, got {value}", hint=hint
                )
            object.__setattr__(self, name, value)
        for name, most in (("top_k", 2**31 - 1), ("seed", 2**64 - 1)):
            value = checked_limit(name, getattr(self, name), least=0)
            if value > most:
                raise GraphError(
                    "bad-sampling", f"{name} must be at most {most}, got {value}", hint="lower it"
                )
            object.__setattr__(self, name, value)
        object.__setattr__(self, "verification", checked_verification(self.verification))

    def options(self) -> NDArray[np.float32]:
        """Return the row of ``options``."""
        row = np.zeros(OPTION_COLUMNS, np.float32)
        row[Option.TEMPERATURE] = self.temperature
        row[Option.TOP_K] = min(self.top_k, 1 << 24)  # f32 counts no further; no vocabulary does
        row[Option.TOP_P] = self.top_p
        row[Option.MIN_P] = self.min_p
        row[Option.REPETITION] = self.repetition_penalty
        row[Option.PRESENCE] = self.presence_penalty
        row[Option.FREQUENCY] = self.frequency_penalty
        write_verification(self.verification, row)
        return row

    @classmethod
    def of_rows(cls, options: NDArray[np.float32], state: NDArray[np.int32]) -> "Sampling":
        """Return what has these rows of ``options`` and ``state``; other columns are not looked at.

        Raises:
            GraphError: A number is out of range.
            ValueError: One is none, or no verification has this number.
            OverflowError: One is infinite.
        """
        low, high = state[[State.SEED_LOW, State.SEED_HIGH]].view(np.uint32).tolist()
        return cls(
            temperature=float(options[Option.TEMPERATURE]),
            top_k=int(options[Option.TOP_K]),
            top_p=float(options[Option.TOP_P]),
            min_p=float(options[Option.MIN_P]),
            seed=low + high * _WORD,
            repetition_penalty=float(options[Option.REPETITION]),
            presence_penalty=float(options[Option.PRESENCE]),
            frequency_penalty=float(options[Option.FREQUENCY]),
            verification=read_verification(options),
        )

    def write_seed(self, state: NDArray[np.int32]) -> None:
        """Write the seed to a row of ``state``."""
        words = np.array([self.seed % _WORD, self.seed // _WORD], np.uint32).view(np.int32)
        state[[State.SEED_LOW, State.SEED_HIGH]] = words
