"""A model as an evaluation sees it: token ids in, logits of every token out."""

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol, runtime_checkable

import numpy as np
from numpy.typing import NDArray

Ids = tuple[int, ...]
Stop = Callable[[Sequence[int]], bool]
"""Whether a continuation ends with the tokens that it has."""


@dataclass(frozen=True, slots=True)
class ModelCard:
    """What is to be known of a model besides its numbers.

    Attributes:
        name: As the user gave it.
        vocabulary: Number of token ids.
        max_tokens: Longest text that it reads.
        end_ids: Tokens that end an answer.
        tokenizer: The file; None: sets have to hold token ids.
    """

    name: str
    vocabulary: int
    max_tokens: int
    end_ids: frozenset[int]
    tokenizer: Path | None


@dataclass(frozen=True, slots=True, eq=False)
class Prediction:
    """What a model says of a text.

    Attributes:
        logits: f64 ``[tokens, vocabulary]``: row i is about token i + 1.
        drafts: f64 ``[tokens - 1, vocabulary]``: what the first draft layer says behind row i and
            token i + 1, about token i + 2; None: there is no draft layer.
    """

    logits: NDArray[np.float64]
    drafts: NDArray[np.float64] | None = None


@dataclass(frozen=True, slots=True)
class Continuation:
    """What a model goes on with.

    Attributes:
        ids: New tokens, without the one that ends them.
        accepted: Drafts that were accepted meanwhile.
        proposed: Drafts that were verified.
    """

    ids: Ids
    accepted: int = 0
    proposed: int = 0


class LanguageModel(Protocol):
    """Predicts a text by itself, so that no number depends on what else is evaluated."""

    @property
    def card(self) -> ModelCard:
        """What is to be known of it."""
        ...

    def predict(self, ids: Ids) -> Prediction:
        """Return the logits of a text of at least one token."""
        ...


@runtime_checkable
class Continues(Protocol):
    """A model with a cache, which continues texts by itself."""

    def go_on(self, ids: Ids, most: int, stop: Stop) -> Continuation:
        """Return at most so many likeliest tokens behind a text."""
        ...
