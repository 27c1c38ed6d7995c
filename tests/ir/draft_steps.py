"""Steps that draft, choose and verify with the references, for many requests at once."""

from dataclasses import dataclass

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.ops import SampleDrafts, SampleTokens, VerifyDrafts
from ascendfx.ir.step_state import OPTION_COLUMNS, STATE_COLUMNS, STOP_COLUMNS, Option, State


@dataclass(frozen=True, slots=True)
class Chain:
    """A main and a draft model whose next token depends on the last one.

    Attributes:
        main: Logits ``[vocab, vocab]`` behind each token.
        draft: Those of the draft model.
    """

    main: Array
    draft: Array

    @classmethod
    def of(cls, seed: int, vocabulary: int = 3) -> "Chain":
        """Return models that hardly agree."""
        random = np.random.default_rng(seed)
        shape = vocabulary, vocabulary
        return cls(random.standard_normal(shape), 1.5 * random.standard_normal(shape))

    def p(self, first: int, text: tuple[int, ...]) -> float:
        """Return the main model's probability of tokens behind a first one."""
        weights = np.exp(self.main)
        shares = weights / weights.sum(axis=1, keepdims=True)
        return float(np.prod([shares[a, b] for a, b in zip((first, *text), text, strict=False)]))


def texts_of(
    chain: Chain, requests: int, drafts: int, steps: int, kept: int = 2, **options: float
) -> list[list[int]]:
    """Return what requests with seeds of their own emit behind token 0 at position 5.

    The first step has certain drafts of which nothing is kept, as behind a prefill.
    """
    vocabulary = len(chain.main)
    chosen = np.zeros((requests, OPTION_COLUMNS))
    for name, value in options.items():
        chosen[:, Option[name.upper()]] = value
    state = np.zeros((requests, STATE_COLUMNS), np.int64)
    state[:, State.SEED_LOW] = np.arange(requests)
    state[:, State.LENGTH], state[:, State.DRAFTED] = 5, drafts
    stops = np.full((requests, STOP_COLUMNS), -1)
    counts = np.zeros((1, vocabulary), np.int64)
    ids, shares = (
        np.full((requests, drafts, kept), -1),
        np.zeros((requests, drafts, kept)),
    )
    tokens = np.zeros((requests, drafts + 1), np.int64)
    for depth in range(drafts):
        tokens[:, depth + 1] = chain.draft[tokens[:, depth]].argmax(axis=1)
    row_request = np.repeat(np.arange(requests), drafts + 1)
    texts: list[list[int]] = [[] for _ in range(requests)]
    for _ in range(steps):
        rows = tokens.reshape(-1)
        positions = (state[:, State.LENGTH, None] + np.arange(drafts + 1)).reshape(-1)
        choice = (chain.main[rows], chosen, state, stops, positions, row_request, counts)
        coupled = (rows, ids, shares) if drafts else ()
        (sampled,) = SampleTokens(drafts).reference(*choice, *coupled)
        accepted, _, new = VerifyDrafts(drafts).reference(rows, sampled, state)
        for text, row, count, token in zip(texts, tokens, accepted, new, strict=True):
            text.extend([*row[1 : 1 + count].tolist(), int(token)])
        following = [new]
        for depth in range(drafts):
            logits = chain.draft[following[-1]]
            operands = (logits, chosen, state, stops, accepted, ids, shares)
            token, ids, shares = SampleDrafts(depth).reference(*operands)
            following.append(token)
        tokens = np.stack(following, axis=1)
        state[:, State.LENGTH] += accepted + 1
    return texts
