"""Records that no prefill writes, and executors that change while requests run."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import STATE_COLUMNS, STOP_COLUMNS, Option, State
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.transfer_record import TransferRecord
from ascendfx.runtime.engine.verification import LOSSLESS, Relaxed, Typical
from tests.engine.fake_executor import FakeExecutor
from tests.engine.served import served_by
from tests.engine.toy_model import VOCABULARY, expected
from tests.engine.tree_executor import TreeExecutor

PROMPT = Request(prompt=[1, 16], max_new_tokens=20)
FREE = (State.LIMIT, State.MINIMUM, State.DRAFTS, State.SEED_LOW, State.SEED_HIGH, State.ADAPTIVE)
NOT_YET = sorted(set(range(STATE_COLUMNS)) - {*FREE})
"""Columns that are 0 until a request has a place."""


def engine(*plans: str) -> Engine:
    device = FakeExecutor(plans=plans or ("decode", "prefill"), drafts=2)
    return served_by(device, model="m")


def with_state(column: int, value: int) -> Callable[[TransferRecord], TransferRecord]:
    def change(record: TransferRecord) -> TransferRecord:
        state = record.state.copy()
        state[column] = value
        return replace(record, state=state)

    return change


def with_option(column: int, value: float) -> Callable[[TransferRecord], TransferRecord]:
    def change(record: TransferRecord) -> TransferRecord:
        options = record.options.copy()
        options[column] = value
        return replace(record, options=options)

    return change


def with_infinity(record: TransferRecord) -> TransferRecord:
    caches = {name: each.copy() for name, each in record.caches.items()}
    first = next(name for name, each in caches.items() if each.dtype.kind == "f")
    caches[first].flat[0] = np.inf
    return replace(record, caches=caches)


@pytest.mark.parametrize(
    "change",
    [
        *(with_state(column, value) for column in NOT_YET for value in (-100, -1, 1, 2**31 - 1)),
        *(with_state(State.LIMIT, value) for value in (0, -(2**31))),
        *(with_state(State.MINIMUM, value) for value in (-1, PROMPT.max_new_tokens + 1)),
        *(with_state(State.DRAFTS, value) for value in (-1, 3)),
        *(with_state(State.ADAPTIVE, value) for value in (-1, 2)),
        with_option(Option.TEMPERATURE, -1),
        with_option(Option.TOP_P, np.nan),
        *(with_option(Option.VERIFICATION, value) for value in (9, 0.5, np.inf)),
        *(with_option(Option.TOP_P, value) for value in (0.0, -1, 1.5)),
        *(with_option(Option.MIN_P, value) for value in (-1, 1.5)),
        *(with_option(Option.TOP_K, value) for value in (-1, 0.5, 3e38, np.inf, np.nan)),
        *(with_option(Option.REPETITION, value) for value in (0, -1, 1e-9, 1e9)),
        *(with_option(column, -2.5) for column in (Option.PRESENCE, Option.FREQUENCY)),
        *(with_option(column, 1) for column in (Option.THRESHOLD, Option.SCALE, Option.RANKS)),
        with_option(len(Option), 1),  # a column that means nothing
        *(
            lambda record, token=token: replace(record, first_token=token)
            for token in (-5, VOCABULARY, 2**40, 1.5, True, None)
        ),
        *(
            lambda record, drafts=drafts: replace(record, drafts=drafts)
            for drafts in ((0, VOCABULARY), (True, 0), [0, 1], None)
        ),
        *(
            lambda record, stops=stops: replace(
                record, stop_ids=np.array([*stops, *[-1] * (STOP_COLUMNS - len(stops))], np.int32)
            )
            for stops in ((VOCABULARY,), (-7,), (3, 3), (-1, 3))
        ),
        *(lambda record, model=model: replace(record, model=model) for model in (None, b"m", 3)),
        lambda record: replace(record, tokens=record.tokens.tolist()),
        lambda record: replace(record, tokens=[[1], [1, 2]]),
        lambda record: replace(record, tokens=record.tokens[None]),
        lambda record: replace(record, tokens=np.int32(1)),
        lambda record: replace(record, tokens=np.array(1, np.int32)),
        lambda record: replace(
            record,
            tokens=record.tokens[:0],
            caches={name: rows[:0] for name, rows in record.caches.items()},
        ),
        lambda record: replace(record, options=record.options.astype(np.float64)),
        lambda record: replace(record, state=record.state[:-1]),
        lambda record: replace(record, stop_ids=record.stop_ids[:-1]),
        lambda record: replace(record, caches=None),
        lambda record: replace(record, caches={**record.caches, 1: record.tokens}),
        *(
            lambda record, kind=kind: replace(
                record, caches={name: kind(rows) for name, rows in record.caches.items()}
            )
            for kind in (np.ndarray.tolist, lambda rows: rows.astype(object), lambda _: None)
        ),
    ],
)
def test_a_record_that_no_prefill_writes_stops_nobody(
    change: Callable[[TransferRecord], TransferRecord],
) -> None:
    record = engine("prefill").prefill(PROMPT)
    decode = engine("decode")
    with pytest.raises(GraphError, match=r"error\[record-damaged\]"):
        decode.start_from(change(record))
    decode.start_from(record)
    while decode.busy:
        decode.step(4)
    assert decode.poll()[-1].finish_reason


@pytest.mark.parametrize(
    "request_",
    [
        Request(prompt=[5], max_new_tokens=1),
        Request(
            prompt=[1, 16],
            max_new_tokens=7,
            min_new_tokens=2**40,
            stop_ids=[0, VOCABULARY - 1],
            draft_tokens=1,
            sampling=Sampling(
                temperature=0.7, top_k=2**30, top_p=0.3, min_p=0.1, seed=2**64 - 3,
                repetition_penalty=0.01, presence_penalty=-0.3, frequency_penalty=1.9,
                verification=Typical(threshold=0.1, alpha=0.7),
            ),
        ),
        Request(
            prompt=[5], sampling=Sampling(temperature=3e38, verification=Relaxed(delta=0.3))
        ),
        *(Request(prompt=[5], sampling=Sampling(verification=each)) for each in LOSSLESS),
    ],
)  # fmt: skip
def test_every_record_of_a_prefill_is_taken(request_: Request) -> None:
    request_ = replace(request_, max_new_tokens=min(7, request_.max_new_tokens))
    record = engine("prefill").prefill(request_)
    assert engine("decode").start_from(record) == 0
    again = Sampling.of_rows(record.options, record.state)
    assert again.options().tobytes() == record.options.tobytes()
    assert again.seed == request_.sampling.seed


def test_a_cache_of_no_numbers_is_refused() -> None:
    record = engine("prefill").prefill(PROMPT)
    if not any(each.dtype.kind == "f" for each in record.caches.values()):
        caches = {"cache.0.0": np.array([[np.nan]], np.float32)}
        changed = replace(record, caches=caches)
    else:
        changed = with_infinity(record)
    with pytest.raises(GraphError, match="finite numbers"):
        engine("decode").start_from(changed)


def test_a_stream_of_an_executor_before_ends_and_cancels_nobody() -> None:
    served = engine()
    pieces = served.stream([[1, 16]], max_new_tokens=20)
    next(pieces)
    served.executor = FakeExecutor(drafts=2)
    (other,) = served.start([PROMPT])
    served.step(1)
    assert [each.finish_reason for each in pieces][-1] == "cancelled"
    while served.busy:
        served.step(4)
    updates = served.poll()
    assert updates[-1].request == other
    assert updates[-1].finish_reason == expected(PROMPT)[1]


def test_another_executor_waits_for_what_runs() -> None:
    served = engine()
    served.start([PROMPT] * 2)
    served.step(4, wait=False)
    served.executor = served.executor
    served.start([PROMPT])
    tokens: list[int] = []
    while served.busy:
        served.step(4)
        tokens += [token for update in served.poll() for token in update.token_ids]
    assert tuple(tokens) == expected(PROMPT)[0]


def test_what_is_no_executor_is_refused_and_nothing_changes() -> None:
    served = engine()
    before = served.executor
    with pytest.raises(GraphError, match="executor"):
        served.executor = 3  # type: ignore[assignment]
    assert served.executor is before
    assert served.generate([[1, 16]], max_new_tokens=20)[0].token_ids == expected(PROMPT)[0]


def test_a_record_goes_on_in_a_tree_if_its_choice_fits() -> None:
    def tree() -> Engine:
        device = TreeExecutor((2, 1))
        return served_by(device, model="m")

    record = tree().prefill(PROMPT)
    served = tree()
    served.start_from(record)
    tokens: list[int] = []
    while served.busy:
        served.step(4)
        tokens += [token for update in served.poll() for token in update.token_ids]
    assert tuple(tokens) == expected(PROMPT)[0]
    for sampling in (Sampling(verification="block"), Sampling(presence_penalty=1.0)):
        with pytest.raises(GraphError, match=r"error\[draft-tree-request\]: request"):
            served.start_from(replace(record, options=sampling.options()))
    with pytest.raises(GraphError, match="DRAFTS is 1"):
        served.start_from(with_state(State.DRAFTS, 1)(record))
