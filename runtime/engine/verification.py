"""How drafts are verified: what a caller names, and what it means for the text.

Verification of passes is in ``passes/verification``, of files in ``runtime/package/hashes.py``.
"""

from dataclasses import dataclass
from difflib import get_close_matches

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import Option
from ascendfx.ir.step_state import Verification as Kind
from ascendfx.runtime.arguments import wrong_type
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.engine.checked_number import check_within

_RANKS = 1 << 24
"""f32 counts no further; no vocabulary has more tokens."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Typical:
    """LOSSY: typical acceptance; the text is not distributed as the model's own.

    A draft is accepted if its probability is above ``min(threshold, alpha * exp(-H))``, with ``H``
    the entropy of the model's distribution in nats: where the model is unsure, less will do. With a
    lower threshold more drafts are accepted. Probabilities are those before top-k, top-p and
    min-p, of temperature 1 for greedy requests. Source: Cai et al., arXiv 2401.10774, section
    2.3.1; the defaults are those of vLLM.

    Attributes:
        threshold: Probability that is always enough, 0 to 1.
        alpha: Factor of the bound by entropy, at least 0.
    """

    threshold: float = 0.09
    alpha: float = 0.3

    def __post_init__(self) -> None:
        for name, high in (("threshold", 1.0), ("alpha", 1e6)):
            value = check_within(name, getattr(self, name), 0.0, high, hint=_LOOSER)
            object.__setattr__(self, name, value)

    def write(self, options: NDArray[np.float32]) -> None:
        """Write to a row of ``options``."""
        options[Option.VERIFICATION] = Kind.TYPICAL
        options[Option.THRESHOLD] = self.threshold
        options[Option.SCALE] = self.alpha


@dataclass(frozen=True, slots=True, kw_only=True)
class Relaxed:
    """LOSSY: relaxed acceptance; the text is not distributed as the model's own.

    A draft is accepted if it is among the ``top_k`` most likely tokens and its probability is at
    most ``delta`` below the largest. Probabilities are those of `Typical`. Source: TensorRT-LLM,
    ``relaxed_topk`` and ``relaxed_delta``, which its DeepSeek-R1 example sets to these defaults for
    the thinking phase.

    Attributes:
        top_k: At least 1; 1 accepts the most likely token only.
        delta: 0 to 1.
    """

    top_k: int = 10
    delta: float = 0.6

    def __post_init__(self) -> None:
        object.__setattr__(self, "top_k", checked_limit("top_k", self.top_k, least=1))
        value = check_within("delta", self.delta, 0.0, 1.0, hint=_LOOSER)
        object.__setattr__(self, "delta", value)

    def write(self, options: NDArray[np.float32]) -> None:
        """Write to a row of ``options``."""
        options[Option.VERIFICATION] = Kind.RELAXED
        options[Option.THRESHOLD] = self.delta
        options[Option.RANKS] = min(self.top_k, _RANKS)


_LOOSER = "a draft that is accepted too easily makes the text another one: start with the defaults"

Verification = str | Typical | Relaxed
"""``"exact"``, ``"rejection"``, ``"block"``, or a lossy one, by name or with its parameters."""

LOSSLESS = ("exact", "rejection", "block")
LOSSY = {"typical": Typical, "relaxed": Relaxed}
NAMES = (*LOSSLESS, *LOSSY)


def checked_verification(value: object) -> Verification:
    """Return how drafts are verified; a lossy one that was named has its default parameters.

    Raises:
        GraphError: There is none of this name, or it is something else.
    """
    if isinstance(value, Typical | Relaxed):
        return value
    if not isinstance(value, str):
        raise wrong_type("verification", value, f"one of {', '.join(NAMES)}, Typical or Relaxed")
    if value in LOSSLESS:
        return value
    if value in LOSSY:
        return LOSSY[value]()
    near = get_close_matches(value.lower(), NAMES, n=1)
    meant = f"did you mean `{near[0]}`? " if near else ""
    raise GraphError(
        "bad-sampling",
        f"verification `{value}` is not known",
        hint=f"{meant}known: {', '.join(LOSSLESS)}, which are lossless; {', '.join(LOSSY)}, lossy",
    )


def write_verification(verification: Verification, options: NDArray[np.float32]) -> None:
    """Write how drafts are verified to a row of ``options``."""
    if isinstance(verification, str):
        options[Option.VERIFICATION] = Kind[verification.upper()]
    else:
        verification.write(options)


def read_verification(options: NDArray[np.float32]) -> Verification:
    """Return what `write_verification` wrote to a row of ``options``.

    Raises:
        GraphError: A parameter is out of range.
        ValueError: There is no verification of this number.
    """
    kind, threshold = Kind(float(options[Option.VERIFICATION])), float(options[Option.THRESHOLD])
    if kind is Kind.TYPICAL:
        return Typical(threshold=threshold, alpha=float(options[Option.SCALE]))
    if kind is Kind.RELAXED:
        return Relaxed(top_k=int(options[Option.RANKS]), delta=threshold)
    return kind.name.lower()
