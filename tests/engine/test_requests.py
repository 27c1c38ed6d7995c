"""What callers may ask of an engine, and what they get."""

import math
import threading
from itertools import count
from typing import Any

import numpy as np
import pytest
import torch

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import Option, Verification
from ascendfx.runtime.engine.draft_policy import ExpectedGain
from ascendfx.runtime.engine.request import Request, Update
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.verification import Relaxed, Typical
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from tests.engine.fake_executor import FakeExecutor
from tests.engine.served import LIMIT, PROMPTS, ends, engine, run
from tests.engine.toy_model import BROKEN, VOCABULARY, expected


def greedy(prompt: list[int]) -> tuple[int, ...]:
    return expected(Request(prompt=prompt, max_new_tokens=LIMIT))[0]


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ({"max_new_tokens": 0}, "bad-limit", "max_new_tokens must be at least 1, got 0"),
        ({"max_new_tokens": True}, "bad-limit", "max_new_tokens"),
        ({"min_new_tokens": -1}, "bad-limit", "min_new_tokens must be at least 0, got -1"),
        ({"draft_tokens": 1.5}, "bad-limit", "draft_tokens must be at least 0"),
        ({"stop_at_eos": 1}, "bad-argument", "stop_at_eos must be True or False"),
        ({"stop_ids": "ab"}, "bad-argument", "stop_ids must be a list of token ids"),
        ({"stop_ids": [1.5]}, "bad-argument", "stop_ids must be a list of token ids"),
        ({"stop_ids": [True]}, "bad-argument", "stop_ids must be a list of token ids"),
        ({"stop_ids": [3, -1]}, "bad-stop-ids", "2 ids from -1 to 3; at most 8"),
        ({"stop_ids": range(9)}, "bad-stop-ids", "9 ids from 0 to 8; at most 8"),
        ({"stop_ids": [2**40]}, "bad-stop-ids", "1099511627776"),
        ({"sampling": 0.7}, "bad-argument", "sampling must be a `Sampling`"),
    ],
)
def test_a_request_is_checked_when_it_is_made(
    arguments: dict[str, Any], code: str, message: str
) -> None:
    with pytest.raises(GraphError) as caught:
        Request(prompt=[1], **arguments)
    assert caught.value.code == code
    assert message in caught.value.reason


@pytest.mark.parametrize(
    ("name", "value", "code"),
    [
        *(("temperature", v, "bad-sampling") for v in (-0.1, math.nan, math.inf, 1e39, 1e-50)),
        *(("top_p", v, "bad-sampling") for v in (0.0, 1.1, math.nan, -1.0, 1e-50)),
        *(("min_p", v, "bad-sampling") for v in (-0.1, 1.1, math.nan, 1e-50)),
        *(("top_k", v, "bad-limit") for v in (-1, 1.5, True, None)),
        ("top_k", 2**31, "bad-sampling"),
        ("seed", -1, "bad-limit"),
        ("seed", 2**64, "bad-sampling"),
        *(("repetition_penalty", v, "bad-sampling") for v in (0, -1.0, math.nan, math.inf, 1e-9)),
        *(("presence_penalty", v, "bad-sampling") for v in (-2.1, 2.1, math.nan, -1e-50)),
        *(("frequency_penalty", v, "bad-sampling") for v in (-2.1, 2.1, math.nan, 1e-50)),
        ("repetition_penalty", "1", "bad-argument"),
        *(("verification", v, "bad-sampling") for v in ("exakt", "", "REJECTION", "medusa")),
        *(("verification", v, "bad-argument") for v in (1, None, Typical)),
        *((name, "1", "bad-argument") for name in ("temperature", "top_p", "min_p")),
        *((name, True, "bad-argument") for name in ("temperature", "top_p", "min_p")),
        *((name, [1], "bad-argument") for name in ("temperature", "top_p", "min_p")),
    ],
)
def test_sampling_is_checked_when_it_is_made(name: str, value: object, code: str) -> None:
    with pytest.raises(GraphError) as caught:
        Sampling(**{name: value})  # type: ignore[arg-type]
    assert caught.value.code == code
    assert name in caught.value.reason
    assert caught.value.hint


@pytest.mark.parametrize(
    ("kind", "name", "value", "code"),
    [
        *((Typical, "threshold", v, "bad-sampling") for v in (-0.1, 1.1, math.nan, 1e-50)),
        *((Typical, "alpha", v, "bad-sampling") for v in (-0.1, math.inf, math.nan, 1e-50)),
        *((Relaxed, "delta", v, "bad-sampling") for v in (-0.1, 1.1, math.nan, 1e-50)),
        *((Relaxed, "top_k", v, "bad-limit") for v in (0, 1.5, True)),
        (Typical, "threshold", "0.1", "bad-argument"),
        (Relaxed, "delta", None, "bad-argument"),
    ],
)
def test_lossy_verification_is_checked_when_it_is_made(
    kind: type[Typical | Relaxed], name: str, value: object, code: str
) -> None:
    with pytest.raises(GraphError) as caught:
        kind(**{name: value})  # type: ignore[arg-type]
    assert caught.value.code == code
    assert name in caught.value.reason
    assert caught.value.hint


def test_a_verification_is_named_or_given_with_its_parameters() -> None:
    assert Sampling(verification="typical") == Sampling(verification=Typical())
    assert Sampling(verification="relaxed").verification == Relaxed(top_k=10, delta=0.6)
    with pytest.raises(GraphError) as caught:
        Sampling(verification="rejecton")
    assert "did you mean `rejection`?" in caught.value.hint
    assert "lossless" in caught.value.hint
    for number, name in enumerate(("exact", "rejection", "block", "typical", "relaxed")):
        options = Sampling(verification=name).options()
        assert options[Option.VERIFICATION] == number == Verification[name.upper()]
    options = Sampling(verification=Typical(threshold=0.25, alpha=0.5)).options()
    assert options[[Option.THRESHOLD, Option.SCALE]].tolist() == [0.25, 0.5]
    options = Sampling(verification=Relaxed(top_k=2**30, delta=0.5)).options()
    assert options[[Option.RANKS, Option.THRESHOLD]].tolist() == [2**24, 0.5]
    penalties = {"repetition_penalty": 1.5, "presence_penalty": -2, "frequency_penalty": 0.5}
    options = Sampling(**penalties).options()
    assert options[Option.REPETITION : Option.FREQUENCY + 1].tolist() == [1.5, -2.0, 0.5]


def test_numbers_of_numpy_are_numbers() -> None:
    assert Sampling(repetition_penalty=np.float32(0.01)).repetition_penalty < 0.01
    given = Sampling(
        temperature=np.float32(0.5), top_k=np.int64(3), top_p=np.float64(0.5), seed=np.uint64(7)
    )
    assert given == Sampling(temperature=0.5, top_k=3, top_p=0.5, seed=7)


@pytest.mark.parametrize(
    ("request_", "code"),
    [
        (Request(prompt=[]), "empty-prompt"),
        (Request(prompt=[VOCABULARY]), "token-range"),
        (Request(prompt=[1, True]), "bad-prompt"),
        (Request(prompt=np.array([True, False])), "bad-prompt"),
        (Request(prompt=torch.tensor([True, False])), "bad-prompt"),
        (Request(prompt=[1], max_new_tokens=2, stop_ids=[3, VOCABULARY]), "token-range"),
        (Request(prompt="text"), "no-tokenizer"),
        (Request(prompt=[1] * 30, max_new_tokens=1), "context-limit"),
        (Request(prompt=[1] * 10, max_new_tokens=10), "cache-full"),
        (Request(prompt=[1], max_new_tokens=2, draft_tokens=3), "bad-limit"),
        (Request(prompt=[1], max_new_tokens=2, stop_ids=range(8)), "bad-stop-ids"),
    ],
)
def test_no_request_starts_if_one_cannot(request_: Request, code: str) -> None:
    served = engine(frozenset({9}), drafts=2, blocks=4)
    with pytest.raises(GraphError) as caught:
        served.start([Request(prompt=[1], max_new_tokens=2), request_])
    assert caught.value.code == code
    assert not served.busy
    assert served.start([Request(prompt=[1], max_new_tokens=2)]) == [0]


@pytest.mark.parametrize("wrong", [[1], Request(prompt=[1]), None, "ab"])
def test_start_takes_a_list_of_requests(wrong: Any) -> None:
    with pytest.raises(GraphError, match=r"error\[bad-argument\]"):
        engine().start(wrong)


@pytest.mark.parametrize("wrong", [0, -1, 1.5, True, None, "1"])
def test_step_takes_a_number_of_steps(wrong: Any) -> None:
    with pytest.raises(GraphError, match=r"error\[bad-limit\]: n must be at least 1"):
        engine().step(wrong)


def test_what_has_ended_may_be_cancelled_and_stays_as_it_is() -> None:
    served = engine()
    (request,) = served.start([Request(prompt=[1], max_new_tokens=2)])
    with pytest.raises(GraphError, match=r"error\[unknown-request\]: no request has the id 5"):
        served.cancel(5)
    served.step(4)
    served.cancel(request)  # it has ended, and keeps its reason
    assert [each.finish_reason for each in served.poll()] == ["length"]
    assert served.poll() == []
    served.cancel(request)
    assert served.poll() == []
    (other,) = served.start([Request(prompt=[1], max_new_tokens=2)])
    served.cancel(request)
    served.step(4)
    assert [(each.request, each.finish_reason) for each in served.poll()] == [(other, "length")]


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("drafts", [0, 1, 3])
@pytest.mark.parametrize("sampling", [Sampling(), Sampling(temperature=1.0, top_k=5, seed=3)])
def test_groups_threads_and_drafts_change_no_token(
    drafts: int, sampling: Sampling, *, wait: bool
) -> None:
    requests = [Request(prompt=p, max_new_tokens=LIMIT, sampling=sampling) for p in PROMPTS]
    for n in (1, 3, 9):
        served = engine(drafts=drafts, blocks=11)
        ids = served.start(requests)
        found = run(served, n=n, wait=wait)
        assert [found[each] for each in ids] == [expected(each) for each in requests]


def test_a_group_runs_while_the_one_before_it_is_read() -> None:
    served = engine()
    device = served.executor
    assert isinstance(device, FakeExecutor)
    gate, inner, calls = threading.Event(), device.run_steps, count(1)

    def third_waits(plan: str, steps: int) -> None:
        assert next(calls) != 3 or gate.wait(600), "step waited for the group that it handed over"
        inner(plan, steps)

    device.run_steps = third_waits  # type: ignore[method-assign]
    served.start([Request(prompt=PROMPTS[0], max_new_tokens=LIMIT)])
    for _ in range(3):
        served.step(2, wait=False)  # the last one returns although its group cannot end
    (update,) = served.poll()
    assert update == Update(0, greedy(PROMPTS[0])[: len(update.token_ids)])
    assert update.token_ids
    gate.set()
    served.step(2)


def test_a_request_that_breaks_ends_alone() -> None:
    served = engine(drafts=1)
    good, bad = Request(prompt=[1], max_new_tokens=9), Request(prompt=[BROKEN], max_new_tokens=9)
    ids = served.start([good, bad])
    served.step(9)
    while served.busy:
        served.step(9)
    updates = {each.request: each for each in served.poll()}
    assert updates[ids[0]].token_ids == expected(good)[0]
    error = updates[ids[1]].error
    assert error is not None
    assert error.code == "logits-overflow"
    assert error.reason == "request 1: the logit of token id 0 is nan in a step of plan `prefill`"


def test_logits_of_a_decode_step_are_described() -> None:
    pairs = ([i, j] for i in range(9) for j in range(9))
    prompt = next(each for each in pairs if ends(each) == "error" and greedy(each)[2:])
    served = engine(drafts=1, right=1.0)
    with pytest.raises(GraphError) as caught:
        served.generate([PROMPTS[0], prompt], max_new_tokens=LIMIT)
    assert caught.value.code == "logits-overflow"
    assert caught.value.reason == (
        "prompt 1: the logit of token id 0 is nan in a step of plan `decode`"
    )
    assert not served.busy


def test_generate_and_start_share_an_engine() -> None:
    served = engine()
    (request,) = served.start([Request(prompt=PROMPTS[0], max_new_tokens=LIMIT)])
    (result,) = served.generate([PROMPTS[1]], max_new_tokens=LIMIT)
    assert result.token_ids == greedy(PROMPTS[1])
    found: tuple[int, ...] = ()
    while served.busy:
        served.step()
    for each in served.poll():
        assert each.request == request
        found += each.token_ids
    assert found == greedy(PROMPTS[0])


def test_sampling_for_each_prompt() -> None:
    drawn = (Sampling(temperature=1.5, seed=seed) for seed in range(99))
    requests = [Request(prompt=[1], max_new_tokens=4, sampling=each) for each in drawn]
    requests = [each for each in requests if expected(each)[1] == "length"][:4]
    samplings = [each.sampling for each in requests]
    results = engine().generate([[1]] * 4, max_new_tokens=4, sampling=samplings)
    assert [each.token_ids for each in results] == [expected(each)[0] for each in requests]
    assert len({each.token_ids for each in results}) > 1
    with pytest.raises(GraphError, match=r"error\[bad-sampling\]: sampling has 1 elements for 2"):
        engine().generate([[1], [2]], sampling=[Sampling()])


@pytest.mark.parametrize("group_steps", [1, 3])
def test_a_stream_yields_what_generate_returns(group_steps: int) -> None:
    wanted = engine(frozenset({3})).generate(PROMPTS, max_new_tokens=LIMIT)
    found: list[tuple[int, ...]] = [()] * len(PROMPTS)
    reasons = [""] * len(PROMPTS)
    served = engine(frozenset({3}))
    for piece in served.stream(PROMPTS, max_new_tokens=LIMIT, group_steps=group_steps):
        assert piece.token_ids or piece.finish_reason
        found[piece.prompt] += piece.token_ids
        reasons[piece.prompt] = piece.finish_reason
    assert found == [each.token_ids for each in wanted]
    assert reasons == [each.finish_reason for each in wanted]
    assert not served.busy


def test_a_stream_that_is_closed_frees_its_blocks_and_one_that_never_began_has_none() -> None:
    served = engine()
    with pytest.raises(GraphError, match=r"error\[empty-prompt\]"):
        served.stream([[]])
    served.stream([[1]], max_new_tokens=LIMIT)
    assert not served.busy
    pieces = served.stream(PROMPTS, max_new_tokens=LIMIT)
    next(pieces)
    assert served.busy
    pieces.close()  # type: ignore[attr-defined]
    served.step()
    assert not served.busy
    places = served._scheduler.places
    assert places.pool.free == places.pool.capacity


def test_a_new_executor_begins_without_requests() -> None:
    served = engine()
    served.start([Request(prompt=[1], max_new_tokens=LIMIT)])
    served.step()
    served.executor = FakeExecutor()
    assert not served.busy
    assert (
        served.generate([[1]], max_new_tokens=2)[0].token_ids
        == expected(Request(prompt=[1], max_new_tokens=2))[0]
    )


@pytest.mark.parametrize("wait", [True, False])
@pytest.mark.parametrize("drafts", [0, 2])
def test_requests_that_grow_wait_for_each_other(drafts: int, *, wait: bool) -> None:
    """Blocks of one token for little more than one request: groups shrink, the youngest leave."""
    served = engine(places=4, drafts=drafts, blocks=30, block_tokens=1, table_blocks=24, right=0.8)
    scheduler = served._scheduler
    left: list[int] = []
    pause = scheduler._pause

    def note(place: int) -> None:
        left.append(int(scheduler.places.ids[place]))
        assert left[-1] == max(scheduler.places.ids[scheduler.places.live])
        pause(place)

    scheduler._pause = note  # type: ignore[method-assign]
    requests = [Request(prompt=prompt, max_new_tokens=LIMIT) for prompt in PROMPTS]
    ids = served.start(requests)
    found = run(served, n=1, wait=wait)
    assert [found[each] for each in ids] == [expected(each) for each in requests]
    assert left
    assert ids[0] not in left, "the oldest request never leaves"
    assert scheduler.places.pool.free == 30


@pytest.mark.parametrize("drafts", [1, 3])
def test_prefill_tells_drafts_the_prompt_behind_each_chunk(drafts: int) -> None:
    served = engine(drafts=drafts, chunk=4)
    device = served.executor
    assert isinstance(device, FakeExecutor)
    told: list[tuple[int, list[int]]] = []
    inner = device.run

    def note(plan: str, inputs: StepInputs) -> StepOutputs:
        told.append((inputs.context, inputs.further["known_tokens"][0].tolist()))
        return inner(plan, inputs)

    device.run = note  # type: ignore[method-assign]
    prompt = list(range(9))
    served.start([Request(prompt=prompt, max_new_tokens=1)])
    served.step()
    padded = [*prompt, -1, -1, -1]
    assert told == [(end, padded[end : end + drafts]) for end in (4, 8, 9)]


def test_a_policy_outlives_its_executor() -> None:
    served = engine(drafts=1)
    served.draft_policy = policy = ExpectedGain()
    served.executor = FakeExecutor(drafts=1)
    assert served.draft_policy is policy
