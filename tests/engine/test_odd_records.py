"""Records that no prefill writes, and executors that change while requests run."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.step_state import Option, State
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.transfer_record import TransferRecord
from tests.engine.fake_executor import FakeExecutor
from tests.engine.served import served_by
from tests.engine.toy_model import VOCABULARY, expected
from tests.engine.tree_executor import TreeExecutor

PROMPT = Request(prompt=[1, 16], max_new_tokens=20)


def engine(*plans: str) -> Engine:
    device = FakeExecutor(plans=plans or ("decode", "prefill"), drafts=2)
    return served_by(device, model="m")


def with_state(column: State, value: int) -> Callable[[TransferRecord], TransferRecord]:
    def change(record: TransferRecord) -> TransferRecord:
        state = record.state.copy()
        state[column] = value
        return replace(record, state=state)

    return change


def with_option(column: Option, value: float) -> Callable[[TransferRecord], TransferRecord]:
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
        *(with_state(State.GENERATED, value) for value in (-1, 5, 100)),
        with_state(State.LIMIT, 0),
        with_state(State.MINIMUM, -1),
        *(with_state(State.DRAFTS, value) for value in (-1, 3)),
        *(with_state(State.ADAPTIVE, value) for value in (-1, 2)),
        with_option(Option.TEMPERATURE, -1),
        with_option(Option.TOP_P, np.nan),
        *(with_option(Option.VERIFICATION, value) for value in (9, 0.5)),
        *(
            lambda record, token=token: replace(record, first_token=token)
            for token in (-5, VOCABULARY, 2**40, 1.5)
        ),
        lambda record: replace(record, drafts=(0, VOCABULARY)),
        lambda record: replace(record, tokens=record.tokens.tolist()),
        lambda record: replace(record, options=record.options.astype(np.float64)),
        lambda record: replace(record, state=record.state[:-1]),
        lambda record: replace(record, stop_ids=record.stop_ids[:-1]),
        lambda record: replace(record, caches=None),
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
