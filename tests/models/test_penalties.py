"""Penalties on the bundled model: those of transformers and vLLM, with and without drafts."""

from collections.abc import Iterator
from contextlib import contextmanager
from functools import cache
from typing import Any

import pytest
import torch
from transformers import AutoModelForCausalLM, LogitsProcessor, LogitsProcessorList
from transformers.utils import logging

import ascendfx
from ascendfx import Request, Sampling
from tests.models.bundled import Golden
from tests.models.draft_engines import DRAFTS, answers, engine, plain

NEW = 32


class EmittedPenalties(LogitsProcessor):
    """Presence and frequency of the tokens behind the prompt, as vLLM's documentation has them."""

    def __init__(self, prompt: int, presence: float, frequency: float) -> None:
        self._prompt, self._presence, self._frequency = prompt, presence, frequency

    def __call__(self, input_ids: torch.Tensor, scores: torch.Tensor) -> torch.Tensor:
        new = input_ids[0, self._prompt :]
        counts = torch.bincount(new, minlength=scores.shape[1])[None]
        return scores - self._frequency * counts - self._presence * (counts > 0)


@contextmanager
def _quiet() -> Iterator[None]:
    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()


@cache
def model() -> Any:
    with _quiet():
        return AutoModelForCausalLM.from_pretrained(
            ascendfx.bundled_model(), dtype=torch.float32, attn_implementation="eager"
        ).eval()


@cache
def of_transformers(prompt: tuple[int, ...], penalties: tuple[float, float, float]) -> list[int]:
    repetition, presence, frequency = penalties
    own = EmittedPenalties(len(prompt), presence, frequency)
    with _quiet():
        text = model().generate(
            torch.tensor([prompt]),
            max_new_tokens=NEW,
            min_new_tokens=NEW,
            do_sample=False,
            repetition_penalty=repetition,
            logits_processor=LogitsProcessorList([own]),
        )
    return text[0, len(prompt) :].tolist()


PENALTIES = [(1.3, 0.0, 0.0), (0.8, 0.0, 0.0), (1.0, 1.5, 0.0), (1.0, 0.0, 0.6), (1.2, -0.4, 0.3)]


@pytest.mark.parametrize(
    ("penalties", "drafts"),
    [
        pytest.param(
            penalties, drafts, marks=() if drafts in {0, 1 + i % 3} else pytest.mark.nightly
        )
        for i, penalties in enumerate(PENALTIES)
        for drafts in (0, *DRAFTS)
    ],
)
def test_greedy_texts_are_those_of_transformers(
    penalties: tuple[float, float, float], drafts: int, golden: tuple[Golden, ...]
) -> None:
    repetition, presence, frequency = penalties
    served = engine("trained", drafts) if drafts else plain()
    for verification in ("exact", "rejection", "block") if drafts else ("exact",):
        sampling = Sampling(
            repetition_penalty=repetition,
            presence_penalty=presence,
            frequency_penalty=frequency,
            verification=verification,
        )
        requests = [
            Request(
                prompt=each.prompt_ids, max_new_tokens=NEW, min_new_tokens=NEW, sampling=sampling
            )
            for each in golden
        ]
        found = [list(tokens) for tokens, _ in answers(served, requests)]
        assert found == [of_transformers(each.prompt_ids, penalties) for each in golden]
        assert found != [list(each.output_ids[:NEW]) for each in golden]
