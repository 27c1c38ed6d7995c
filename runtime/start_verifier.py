"""Verification of passes: which tokens the programs run on, and with which weights.

Verification of drafts is in ``engine/verification.py``, of files in ``package/hashes.py``.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.passes.expose_hidden import CHAININGS
from ascendfx.passes.verification.verify_stages import StageVerifier
from ascendfx.runtime.arguments import wrong_type
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.progress import Progress, silent

MODES = ("each-pass",)
TEXTS, LENGTH = 2, 32
"""Random texts to run on. Time grows with the square of the length: 132 tokens take ten times as
long. Cache blocks have four tokens here, so that a short text fills several of them."""
LONGEST = 4_096
"""Tokens of a random text: scores of all pairs of tokens are held in float64."""
_SEED = 0
_FALLBACK_VOCABULARY = 2


def _is_id(given: object) -> bool:
    return isinstance(given, int | np.integer) and not isinstance(given, bool)


def check_mode(
    verify: str | None, tokens: Sequence[Sequence[int]] | None = None, length: int | None = None
) -> None:
    """Check the options before the work.

    Raises:
        GraphError: There is no such mode, the tokens are no lists of ids, or there is something to
            verify on and nothing to verify, or two kinds of texts.
    """
    if length is not None:
        checked_limit("verify_length", length, least=1, most=LONGEST)
    for text in [] if tokens is None else tokens if isinstance(tokens, list | tuple) else [tokens]:  # pyright: ignore[reportUnnecessaryIsInstance]
        if isinstance(text, str | bytes) or not isinstance(text, Sequence | np.ndarray):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("verify_tokens", tokens, "a list of lists of token ids")
        if not all(map(_is_id, text)):
            raise wrong_type("verify_tokens", tokens, "a list of lists of token ids")
    if verify is not None and verify not in MODES:
        raise GraphError(
            "unknown-verification",
            f"no verification is called `{verify}`",
            hint=f"known: {', '.join(MODES)}; None for none",
        )
    given = [
        name
        for name, value in (("verify_tokens", tokens), ("verify_length", length))
        if value is not None
    ]
    if given and verify is None:
        raise GraphError(
            "bad-argument",
            f"{given[0]} is given, but nothing is verified",
            hint=f'pass verify="{MODES[0]}" too, or leave {given[0]} out',
        )
    if len(given) > 1:
        raise GraphError(
            "bad-argument",
            "verify_tokens and verify_length are given, but texts have their own length",
            hint="leave one of them out",
        )


def verify_header(
    verify: str | None, tokens: Sequence[Sequence[int]] | None, length: int | None = None
) -> Mapping[str, Any] | None:
    """Return what a dump says of the verification."""
    if verify is None:
        return None
    if tokens is not None:
        return {"mode": verify, "tokens": [list(map(int, text)) for text in tokens]}
    return {"mode": verify, "texts": TEXTS, "length": length or LENGTH, "seed": _SEED}


def start_verifier(
    captured: CapturedModel,
    tokens: Sequence[Sequence[int]] | None,
    length: int | None = None,
    progress: Progress = silent,
    *,
    chaining: str = CHAININGS[0],
) -> StageVerifier:
    """Return a verifier that has run the captured program on the tokens.

    Args:
        captured: What is true, with the draft layers that are compiled.
        tokens: Texts to run on; None: random ones.
        length: Of the random ones; None: `LENGTH`.
        progress: Told when it begins and ends.
        chaining: Which hidden state draft layers read.

    Raises:
        GraphError: The model has no weights, or the tokens do not fit it.
    """
    ids = token_ids(tokens, captured.facts.vocabulary, length=length or LENGTH)
    progress("float64 truth", 0, 1)
    tensors = TensorsByKey(captured.source)
    verifier = StageVerifier(captured.program, captured.drafts, tensors, ids, chaining)
    progress("float64 truth", 1, 1)
    return verifier


def token_ids(
    tokens: Sequence[Sequence[int]] | None,
    vocabulary: int,
    seed: int = _SEED,
    length: int = LENGTH,
) -> Array:
    """Return ids ``[texts, tokens]``: those given, the shorter ones filled up, or random ones.

    Filling up behind a text changes nothing within it, because models here are causal.

    Raises:
        GraphError: There is no token, or one is not in the vocabulary.
    """
    if tokens is None:
        random = np.random.default_rng(seed)
        return random.integers(0, vocabulary or _FALLBACK_VOCABULARY, (TEXTS, length))
    longest = max(map(len, tokens), default=0)
    if not longest:
        raise GraphError(
            "empty-prompt",
            "verify_tokens holds no token",
            hint="give texts of at least one token, or None for random ones",
        )
    for text in tokens:
        for token in text:
            if not 0 <= token < (vocabulary or token + 1):
                raise GraphError(
                    "token-range",
                    f"verify_tokens has id {token}, the vocabulary {vocabulary}",
                    hint="encode the texts with the model's own tokenizer",
                )
    return np.array([[*text, *[0] * (longest - len(text))] for text in tokens], np.int64)
