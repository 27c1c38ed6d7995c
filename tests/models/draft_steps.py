"""A draft program fed in pieces, and in one go."""

from collections.abc import Mapping, Sequence

import numpy as np
from hypothesis import strategies as st

from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.passes.serving_steps import ServingSteps, given_first
from tests.passes.serving_steps import spans


@st.composite
def pieces(draw: st.DrawFn, most: int = 5) -> list[list[int]]:
    """Draw, for one to three requests, how many rows each step appends."""
    requests = draw(st.integers(1, 3))
    lengths = st.lists(st.integers(1, most), min_size=1, max_size=4)
    return [draw(lengths) for _ in range(requests)]


def in_one_go(
    draft: Program, weights: Mapping[str, Array], ids: Array, hidden: Array
) -> tuple[Array, ...]:
    """Return logits and hidden states ``[tokens, ...]`` of the captured form."""
    given = {"token_ids": ids[None], "hidden": hidden[None]}
    return tuple(each[0] for each in interpret(draft, given_first(given, weights)))


def in_pieces(
    serving: Program,
    weights: Mapping[str, Array],
    texts: Sequence[tuple[Array, Array]],
    lengths: Sequence[Sequence[int]],
) -> list[tuple[Array, Array, Array]]:
    """Return logits of the last rows of each piece, and the hidden states of all rows, by text.

    Args:
        serving: The draft in serving form.
        weights: The checkpoint.
        texts: Ids and hidden states of each request.
        lengths: How many rows each of its steps appends.
    """
    steps = ServingSteps(serving, weights, len(texts))
    found: list[list[list[Array]]] = [[[], [], []] for _ in texts]
    for turn in range(max(map(len, lengths))):
        active = [r for r in range(len(texts)) if turn < len(lengths[r])]
        bounds = [spans(lengths[r])[turn] for r in active]
        rows = [(texts[r], slice(*bound)) for r, bound in zip(active, bounds, strict=True)]
        hidden = np.concatenate([states[part] for (_, states), part in rows])
        logits = steps.step(
            [ids[part].tolist() for (ids, _), part in rows], only=active, hidden=hidden
        )
        start = 0
        for i, (r, (a, b)) in enumerate(zip(active, bounds, strict=True)):
            found[r][0].append(logits[i : i + 1])
            for place, states in enumerate(steps.states, start=1):
                found[r][place].append(states[start : start + b - a])
            start += b - a
    return [tuple(map(np.concatenate, each)) for each in found]  # pyright: ignore[reportReturnType]


def assert_pieces_equal_the_whole(
    draft: Program,
    serving: Program,
    weights: Mapping[str, Array],
    lengths: Sequence[Sequence[int]],
    *,
    vocabulary: int,
    width: int,
    atol: float,
) -> None:
    """Assert that steps over rows of several requests compute what the captured form does."""
    random = np.random.default_rng(sum(map(sum, lengths)))
    texts = [
        (random.integers(0, vocabulary, sum(each)), random.standard_normal((sum(each), width)))
        for each in lengths
    ]
    served = in_pieces(serving, weights, texts, lengths)
    for (ids, hidden), each, (logits, *states) in zip(texts, lengths, served, strict=True):
        truth, *true_states = in_one_go(draft, weights, ids, hidden)
        last = np.cumsum(each) - 1
        np.testing.assert_allclose(logits, truth[last], rtol=0, atol=atol)
        for mine, its in zip(states, true_states, strict=True):
            np.testing.assert_allclose(mine, its, rtol=0, atol=atol)
