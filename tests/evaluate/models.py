"""Models whose numbers are known: a table of bigrams, written answers, a small real program."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cache

import numpy as np

from ascendfx import bundled_model
from ascendfx.ir.capture.captured_model import CapturedModel, ModelFacts
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.random_weights import random_weights
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.evaluate.language_model import (
    Continuation,
    Ids,
    ModelCard,
    Prediction,
    Stop,
)
from ascendfx.runtime.evaluate.reference_model import ReferenceModel, model_of, raised_model
from ascendfx.runtime.evaluate.whole_text import WholeText
from tests.passes.captured_models import captured

VOCABULARY = 4096
TOKENIZER = bundled_model() / "tokenizer.json"


def card(name: str = "fake", max_tokens: int = 64, vocabulary: int = VOCABULARY) -> ModelCard:
    return ModelCard(name, vocabulary, max_tokens, frozenset({0}), TOKENIZER)


@cache
def codec() -> TextCodec:
    return TextCodec(TOKENIZER)


@dataclass(frozen=True)
class Bigrams:
    """What follows a token depends on it alone.

    Attributes:
        seed: Of its random logits.
        noise: Added to the logits, in part.
        drafts: Whether there is a draft layer.
    """

    seed: int = 0
    noise: float = 0.0
    drafts: bool = False
    card: ModelCard = field(default_factory=card)

    def predict(self, ids: Ids) -> Prediction:
        rows = [self.row(token) for token in ids]
        ahead = [self.row(token + 1) for token in ids[1:]]
        return Prediction(np.stack(rows), np.stack(ahead) if self.drafts and ahead else None)

    def row(self, token: int) -> np.ndarray:
        logits = np.random.default_rng([self.seed, token]).standard_normal(self.card.vocabulary)
        more = np.random.default_rng([self.seed + 1, token]).standard_normal(self.card.vocabulary)
        return 3 * logits + self.noise * more


@dataclass(frozen=True)
class Writes(Bigrams):
    """Answers as it is told, by prompt; a text that it does not know with nothing."""

    answers: Mapping[str, str] = field(default_factory=dict[str, str])

    def go_on(self, ids: Ids, most: int, stop: Stop) -> Continuation:
        known = {tuple(codec().encode(prompt)): text for prompt, text in self.answers.items()}
        return Continuation(tuple(codec().encode(known.get(ids, "")))[:most], 1, 2)


def small_model(seed: int = 0) -> ReferenceModel:
    """Return, a small DeepSeek-V3 with random weights, anew for each worker."""
    program, source, facts = _made(seed)
    return ReferenceModel(facts, WholeText(program, source))


@cache
def _made(seed: int) -> tuple[Program, ArraySource, ModelCard]:
    program = captured("v3_halfrope")
    source = ArraySource(random_weights(program, seed))
    size = program.main.output_types[0].shape[-1]
    assert isinstance(size, int)
    facts = ModelFacts("small", DType.F32, size, 32, (1,))
    model = model_of(raised_model(CapturedModel(program, source, facts)), name="small")
    return model.main.program, source, model.card
