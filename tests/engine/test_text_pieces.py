"""Tokens as they come are the text of all of them, and never a part of a character."""

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import ascendfx
from ascendfx import GraphError, TextPieces
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.text_codec import TextCodec
from tests.engine.fake_executor import FakeExecutor
from tests.engine.served import PROMPTS, served_by

CODEC = TextCodec(ascendfx.bundled_model() / "tokenizer.json")
TEXTS = ("naïve €5", "数据流 🧑‍🚀!", "x𝄞y", "é" * 5, "plain words", "\u0915\u094d\u0937")


def split(ids: list[int], sizes: list[int]) -> list[list[int]]:
    """Return the ids in parts of these sizes, the rest one by one."""
    parts: list[list[int]] = []
    for size in [*sizes, *[1] * len(ids)]:
        parts.append(ids[:size])
        ids = ids[size:]
    return parts


@pytest.mark.parametrize("text", TEXTS)
def test_a_character_comes_whole_with_its_last_token(text: str) -> None:
    ids = CODEC.encode(text)
    pieces, shown, whole = TextPieces(CODEC), "", CODEC.decode(ids)
    for place, token in enumerate(ids):
        shown += pieces.add([token])
        assert whole.startswith(shown)
        # No character waits that the tokens so far complete.
        assert shown == CODEC.decode(ids[: place + 1]).rstrip("\ufffd")
    assert shown + pieces.add([], last=True) == whole


def test_some_of_the_characters_are_split() -> None:
    assert any(CODEC.decode([token]) == "\ufffd" for text in TEXTS for token in CODEC.encode(text))


@given(
    st.lists(st.integers(0, 4095), max_size=12),
    st.lists(st.integers(0, 4), max_size=6),
)
def test_pieces_of_any_tokens_are_their_text(ids: list[int], sizes: list[int]) -> None:
    pieces = TextPieces(CODEC)
    shown = "".join(pieces.add(part) for part in split(ids, sizes))
    assert shown + pieces.add([], last=True) == CODEC.decode(ids)


def test_bytes_that_never_become_a_character_are_shown_at_the_end() -> None:
    first, *_ = CODEC.encode("🧑")[-2:]
    pieces = TextPieces(CODEC)
    assert pieces.add([first]) == ""
    assert pieces.add([], last=True) == CODEC.decode([first])
    assert "\ufffd" in CODEC.decode([first])


def test_a_server_gets_the_text_of_generate() -> None:
    def served() -> Engine:
        device = FakeExecutor()
        return served_by(device, codec=CODEC)

    requests = [Request(prompt=prompt, max_new_tokens=9) for prompt in PROMPTS]
    engine = served()
    ids = engine.start(requests)
    texts = {request: engine.text_pieces() for request in ids}
    found = dict.fromkeys(ids, "")
    while engine.busy:
        engine.step(2, wait=False)
        for update in engine.poll():
            last = bool(update.finish_reason)
            found[update.request] += texts[update.request].add(update.token_ids, last=last)
    whole = served().generate([each.prompt for each in requests], max_new_tokens=9)
    assert list(found.values()) == [each.text for each in whole]
    assert any(found.values())


def test_columns_are_taken_too_and_without_a_tokenizer_text_is_empty() -> None:
    ids = CODEC.encode("plain")
    assert TextPieces(CODEC).add(np.array(ids, np.int32), last=True) == "plain"  # pyright: ignore[reportArgumentType]
    assert TextPieces(None).add([1, 2], last=True) == ""


@pytest.mark.parametrize("wrong", ["ab", [1.5], 3, None, [-1], [2**31]])
def test_what_are_no_ids_is_refused(wrong: Any) -> None:
    for codec in (CODEC, None):
        with pytest.raises(GraphError, match=r"ids must be a list of token ids"):
            TextPieces(codec).add(wrong)
    with pytest.raises(GraphError, match=r"last must be True or False"):
        TextPieces(CODEC).add([1], last="stop")  # pyright: ignore[reportArgumentType]
