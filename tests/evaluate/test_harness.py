"""The adapter for lm-evaluation-harness, by requests as it makes them."""

from importlib.util import find_spec
from math import fsum
from types import SimpleNamespace

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.evaluate.harness import LM, run_harness
from ascendfx.runtime.evaluate.scorer import WholeModels
from ascendfx.runtime.evaluate.token_scores import log_shares
from tests.evaluate.models import Bigrams, Writes, card, codec

MODEL = Bigrams(1)


def asked(*arguments: object) -> SimpleNamespace:
    return SimpleNamespace(args=arguments)


def log_share(model: Bigrams, ids: list[int], start: int) -> float:
    rows = log_shares(model.predict(tuple(ids)).logits)
    return fsum(rows[i - 1, ids[i]] for i in range(start, len(ids)))


def test_continuations_are_told_with_their_space() -> None:
    lm = LM(WholeModels((MODEL,)), codec())
    (one, other) = lm.loglikelihood([asked("One day she", " went"), asked("One day she ", "went")])
    whole = codec().encode("One day she went")
    expected = log_share(MODEL, whole, len(codec().encode("One day she")))
    assert one == other == (pytest.approx(expected, rel=1e-12), False)
    (empty,) = lm.loglikelihood([asked("", "went")])
    assert empty[0] == pytest.approx(log_share(MODEL, [0, *codec().encode("went")], 1))


def test_the_likeliest_continuation_is_known() -> None:
    model = Bigrams(1)
    start = codec().encode("One day")
    best = int(model.row(start[-1]).argmax())
    lm = LM(
        WholeModels((model,)), SimpleNamespace(encode=lambda text: start + [best] * (text != "x"))
    )
    assert lm.loglikelihood([asked("x", "y")])[0][1]


@pytest.mark.parametrize("most", [4, 5, 6, 7])
def test_long_texts_roll_in_windows_that_tell_each_token_once(most: int) -> None:
    short = Bigrams(1, card=card(max_tokens=most))
    text = "One day she went to the old house"
    ids = [0, *codec().encode(text)]
    assert len(ids) > most
    (found,) = LM(WholeModels((short,)), codec()).loglikelihood_rolling([asked(text)])
    assert found == pytest.approx(log_share(short, ids, 1), rel=1e-12)


def test_a_long_context_loses_its_beginning() -> None:
    short = Bigrams(1, card=card(max_tokens=4))
    whole = codec().encode("One day she went to the house")
    (found,) = LM(WholeModels((short,)), codec()).loglikelihood(
        [asked("One day she went to the", " house")]
    )
    start = len(codec().encode("One day she went to the"))
    assert found[0] == pytest.approx(log_share(short, whole[-4:], 4 - (len(whole) - start)))


def test_generation_stops_where_the_task_says() -> None:
    lm = LM(WholeModels((Writes(answers={"Who?": "the cat\nQ: next"}),)), codec())
    assert lm.generate_until([asked("Who?", {"until": ["\n"], "max_gen_toks": 20})]) == ["the cat"]


@pytest.mark.skipif(find_spec("lm_eval") is not None, reason="the package is there")
def test_without_the_package_there_is_one_error() -> None:
    with pytest.raises(GraphError) as caught:
        run_harness(["arc_easy"], WholeModels((MODEL,)), codec())
    assert caught.value.code == "missing-package"
    assert "arc_easy" in caught.value.reason
