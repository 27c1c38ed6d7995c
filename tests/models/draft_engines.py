"""Engines of the bundled model with drafts of several kinds, and what they answer."""

from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any

import pytest

import ascendfx
from ascendfx import Engine, Request
from tests.models.adversarial_draft import ahead_drafts, write_random_draft
from tests.models.bundled import golden_generations
from tests.models.reference_draft import ReferenceDraft

KINDS = ("trained", "random", "right", "wrong", "stop")
DRAFTS = (1, 2, 3)
_USUAL = {
    *(("trained", drafts) for drafts in DRAFTS),
    *(("random", 2), ("right", 3), ("wrong", 1), ("stop", 2)),
}
"""Each kind, and each number of drafts: an engine costs seconds, and memory until the end."""
KNOWN = 24
"""Tokens of each golden text that the right and the wrong draft know; 5 * 24 < 192 elements."""

Answers = list[tuple[tuple[int, ...], str]]


def pairs(*kinds: str) -> list[Any]:
    """Return kinds with numbers of drafts; the nightly run takes each kind with each number."""
    return [
        pytest.param(
            kind,
            drafts,
            marks=() if (kind, drafts) in _USUAL else pytest.mark.nightly,
            id=f"{kind}-{drafts}",
        )
        for kind in kinds or KINDS
        for drafts in DRAFTS
    ]


@cache
def known_drafts() -> dict[str, Any]:
    reference = ReferenceDraft.of(ascendfx.bundled_model())
    return dict(ahead_drafts(reference, golden_generations(), KNOWN, min(ends())))


@cache
def ends() -> frozenset[int]:
    return plain().config.end_tokens


@cache
def plain() -> Engine:
    return ascendfx.compile(ascendfx.bundled_model(), dtype="float32")


@cache
def engine(kind: str, drafts: int, prefill_chunk: int = 128) -> Engine:
    model = random_checkpoint() if kind == "random" else ascendfx.bundled_model()
    draft = None if kind in {"trained", "random"} else known_drafts()[kind]
    return ascendfx.compile(
        model, dtype="float32", draft_tokens=drafts, draft=draft, prefill_chunk=prefill_chunk
    )


@cache
def random_checkpoint() -> Path:
    return write_random_draft(Path(mkdtemp(prefix="ascendfx-random-draft-")))


def answers(engine: Engine, requests: Sequence[Request]) -> Answers:
    """Return tokens and why they ended, of requests that run together."""
    ids = engine.start(requests)
    tokens: dict[int, tuple[int, ...]] = dict.fromkeys(ids, ())
    reasons: dict[int, str] = {}
    while engine.busy:
        engine.step(3)
        for update in engine.poll():
            tokens[update.request] += update.token_ids
            reasons[update.request] = update.finish_reason
    return [(tokens[each], reasons[each]) for each in ids]


@cache
def plain_answers(requests: tuple[Request, ...]) -> Answers:
    return answers(plain(), requests)
