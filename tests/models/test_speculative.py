"""Drafts change how many steps a text takes, and no token of it: emulated in float32."""

from typing import Any

import pytest
from transformers import AutoModelForCausalLM
from transformers.utils import logging

import ascendfx
from ascendfx import Request
from tests.models.bundled import Golden, heldout_tokens
from tests.models.draft_engines import KNOWN, answers, engine, pairs, plain_answers

pytestmark = pytest.mark.filterwarnings("ignore::ascendfx.AcceptanceWarning")

LENGTHS = (1, 2, 127, 128, 129, 300)


of_all_kinds = pytest.mark.parametrize(("kind", "drafts"), pairs())


@of_all_kinds
def test_five_texts_are_the_golden_ones(kind: str, drafts: int, golden: tuple[Golden, ...]) -> None:
    results = engine(kind, drafts).generate(
        [each.prompt_ids for each in golden], max_new_tokens=64, min_new_tokens=64
    )
    assert [each.token_ids for each in results] == [each.output_ids for each in golden]


@of_all_kinds
def test_a_text_alone_is_the_golden_one(kind: str, drafts: int, golden: tuple[Golden, ...]) -> None:
    for each in golden[2:4]:
        (result,) = engine(kind, drafts).generate(
            [each.prompt_ids], max_new_tokens=20, min_new_tokens=20
        )
        assert result.token_ids == each.output_ids[:20]


@of_all_kinds
def test_end_tokens_end_a_text_where_they_would_without_drafts(
    kind: str, drafts: int, golden: tuple[Golden, ...]
) -> None:
    requests = tuple(Request(prompt=each.prompt_ids) for each in golden)
    expected = plain_answers(requests)
    assert {"stop", "length"} == {reason for _, reason in expected}
    assert answers(engine(kind, drafts), requests) == expected


@pytest.mark.parametrize(("kind", "drafts"), pairs("trained", "right", "stop"))
def test_limits_and_stop_tokens_at_every_draft_position(
    kind: str, drafts: int, golden: tuple[Golden, ...]
) -> None:
    prompt, new = golden[0].prompt_ids, golden[0].output_ids
    places = range(2 * (drafts + 1) + 1)
    limits = [Request(prompt=prompt, max_new_tokens=n + 1, min_new_tokens=n + 1) for n in places]
    common: dict[str, Any] = {"prompt": prompt, "max_new_tokens": KNOWN, "stop_at_eos": False}
    stops = [Request(**common, stop_ids=(new[n],)) for n in places]
    later = [Request(**common, stop_ids=(new[n],), min_new_tokens=n + 1) for n in places]
    expected = plain_answers((*limits, *stops, *later))
    for n, found in zip(places, expected, strict=False):
        assert found == (new[: n + 1], "length")
    for n, (tokens, reason) in zip(places, expected[len(places) :], strict=False):
        assert (tokens, reason) == (new[: new.index(new[n])], "stop")
    assert answers(engine(kind, drafts), (*limits, *stops, *later)) == expected


@pytest.mark.parametrize(
    ("kind", "drafts", "chunk"),
    [
        ("trained", 1, 128),
        ("trained", 2, 128),
        ("trained", 3, 128),
        ("random", 2, 128),
        ("trained", 3, 48),
    ],
)
def test_prompts_of_any_length_at_borders_of_chunks_and_blocks(
    kind: str, drafts: int, chunk: int
) -> None:
    (long, *_) = heldout_tokens(1, max(LENGTHS))["en"]
    requests = tuple(
        Request(prompt=long[-length:], max_new_tokens=12, min_new_tokens=12) for length in LENGTHS
    )
    found = answers(engine(kind, drafts, chunk), requests)
    assert found == plain_answers(requests)
    assert [len(tokens) for tokens, _ in found] == [12] * len(LENGTHS)


@pytest.mark.parametrize(("kind", "drafts"), pairs("right", "wrong", "stop"))
def test_drafts_are_accepted_as_often_as_they_are_right(
    kind: str, drafts: int, golden: tuple[Golden, ...]
) -> None:
    rate = float(kind == "right")
    each = engine(kind, drafts)
    before = each.metrics
    each.generate([g.prompt_ids for g in golden], max_new_tokens=KNOWN, min_new_tokens=KNOWN)
    after = each.metrics
    for i in range(drafts):
        proposed = after.proposed[i] - before.proposed[i]
        assert proposed > 0
        assert after.accepted[i] - before.accepted[i] == rate * proposed
    steps = after.request_steps - before.request_steps
    tokens = KNOWN - 1  # the first one comes with the prompt
    assert steps == len(golden) * (-(-tokens // (drafts + 1)) if rate else tokens)


def test_the_reference_executor_writes_the_same(golden: tuple[Golden, ...]) -> None:
    reference = ascendfx.compile(
        ascendfx.bundled_model(), dtype="float32", draft_tokens=2, executor="reference"
    )
    (result,) = reference.generate([golden[0].prompt_ids], max_new_tokens=8, min_new_tokens=8)
    assert result.token_ids == golden[0].output_ids[:8]
    assert reference.metrics.request_steps < 7


def test_transformers_needs_as_many_steps_for_the_same_text(golden: tuple[Golden, ...]) -> None:
    import torch  # noqa: PLC0415

    verbosity = logging.get_verbosity()
    logging.set_verbosity_error()
    logging.disable_progress_bar()
    try:
        main: Any = AutoModelForCausalLM.from_pretrained(
            ascendfx.bundled_model(), dtype=torch.float32, attn_implementation="eager"
        ).eval()
        # transformers looks for the layer of the published model.
        pattern = [r"model\.layers\.5\..*"]
        main._keys_to_ignore_on_load_unexpected = pattern
        forwards: list[int] = []
        main.register_forward_hook(lambda *_: forwards.append(1))
        prompt = torch.tensor([golden[0].prompt_ids])
        text = main.generate(
            prompt, max_new_tokens=64, min_new_tokens=64, do_sample=False, use_mtp=True
        )
    finally:
        logging.set_verbosity(verbosity)
        logging.enable_progress_bar()
    assert tuple(text[0, prompt.shape[1] :].tolist()) == golden[0].output_ids
    each = engine("trained", 1)
    before = each.metrics.request_steps
    each.generate([golden[0].prompt_ids], max_new_tokens=64, min_new_tokens=64)
    # One forward reads the prompt; their last steps stop drafting where the text must end.
    assert len(forwards) - 1 == each.metrics.request_steps - before
