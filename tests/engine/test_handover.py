"""A prompt is read in one engine and goes on in another; what is refused."""

from collections.abc import Callable, Generator
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.request import Request
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.transfer_record import TransferRecord
from tests.engine.fake_executor import BreakdownError, FakeExecutor
from tests.engine.served import LIMIT, PROMPTS, run, served_by
from tests.engine.toy_model import BROKEN, VOCABULARY, expected

ENDS = frozenset({3})
requests = st.builds(
    Request,
    prompt=st.lists(st.integers(0, VOCABULARY - 2), min_size=1, max_size=14),
    max_new_tokens=st.integers(1, 12),
    min_new_tokens=st.integers(0, 3),
    stop_at_eos=st.booleans(),
    sampling=st.builds(
        Sampling,
        temperature=st.sampled_from([0.0, 0.8]),
        seed=st.integers(0, 9),
        repetition_penalty=st.sampled_from([1.0, 1.7]),
        frequency_penalty=st.sampled_from([0.0, 1.1]),
    ),
)


def engine(*plans: str, model: str = "m", **options: Any) -> Engine:
    device = FakeExecutor(plans=plans or ("decode", "prefill"), **options)
    return served_by(device, ends=ENDS, model=model)


def request(prompt: list[int], **options: Any) -> Request:
    return Request(prompt=prompt, max_new_tokens=LIMIT, stop_at_eos=False, **options)


@contextmanager
def refused(code: str, words: str = "") -> Generator[None]:
    with pytest.raises(GraphError) as found:
        yield
    assert found.value.code == code, found.value
    assert words in found.value.reason
    assert found.value.hint


@given(
    st.lists(requests, min_size=1, max_size=6),
    st.sampled_from([0, 1, 2, 3]),
    st.booleans(),
    st.booleans(),
)
def test_tokens_are_those_of_one_engine(
    asked: list[Request],
    drafts: int,
    without: bool,  # noqa: FBT001
    wait: bool,  # noqa: FBT001
) -> None:
    reader = engine("prefill", drafts=drafts, table_blocks=9)
    writer = engine("decode", drafts=drafts, table_blocks=9, blocks=14, places=2)
    given = [each for each in asked if expected(each, ENDS)[1] != "error"]
    records = [reader.prefill(each) for each in given]
    if without:
        records = [replace(each, drafts=()) for each in records]
    ids = [writer.start_from(each) for each in records]
    assert run(writer, wait=wait) == dict(
        zip(ids, (expected(each, ENDS) for each in given), strict=True)
    )


def test_place_and_blocks_are_free_behind_a_prefill() -> None:
    both = engine(blocks=5)
    for prompt in PROMPTS * 3:
        record = both.prefill(request(prompt))
        assert record.caches["cache.0.0"].tolist() == prompt
        assert not both.busy
    ids = both.start([request(each) for each in PROMPTS])
    assert run(both) == {i: expected(request(p)) for i, p in zip(ids, PROMPTS, strict=True)}


def test_a_prefill_between_the_groups_of_other_requests() -> None:
    both = engine(blocks=30, places=3)
    ids = both.start([request(PROMPTS[0]), request(PROMPTS[1])])
    both.step(2, wait=False)
    record = both.prefill(request(PROMPTS[3]))
    ids.append(both.start_from(record))
    wanted = [PROMPTS[0], PROMPTS[1], PROMPTS[3]]
    assert run(both, n=2, wait=False) == {
        i: expected(request(p)) for i, p in zip(ids, wanted, strict=True)
    }


def test_a_prefill_without_a_free_place_is_refused() -> None:
    both = engine(places=1)
    both.start([request(PROMPTS[0])])
    both.step(1)
    with refused("engine-busy", "no place"):
        both.prefill(request(PROMPTS[1]))
    (served,) = run(both).values()
    assert served == expected(request(PROMPTS[0]))


def test_a_decode_engine_that_breaks_down_runs_its_records_again() -> None:
    reader, device = engine("prefill"), FakeExecutor(plans=("decode",))
    writer = served_by(device, ends=ENDS, model="m")
    ids = [writer.start_from(reader.prefill(request(each))) for each in PROMPTS[:3]]
    got: dict[int, tuple[int, ...]] = dict.fromkeys(ids, ())
    for fail in (2, 0, 3, None, None, None, None, None):
        device.fail_in = fail
        with suppress(BreakdownError):
            writer.step(2)
        for each in writer.poll():
            got[each.request] += each.token_ids
    device.fail_in = None
    while writer.busy:
        writer.step(4)
        for each in writer.poll():
            got[each.request] += each.token_ids
    assert list(got.values()) == [expected(request(each))[0] for each in PROMPTS[:3]]


def test_a_broken_prompt_gives_no_record() -> None:
    reader = engine("prefill", blocks=3)
    for _ in range(4):  # its blocks come back
        with refused("logits-overflow", "prefill"):
            reader.prefill(request([1, 2, BROKEN]))
    assert reader.prefill(request(PROMPTS[0])).length == 1


def test_each_half_refuses_the_other() -> None:
    reader, writer = engine("prefill"), engine("decode")
    record = reader.prefill(request(PROMPTS[1]))
    calls: list[Callable[[], object]] = [
        lambda: writer.prefill(request(PROMPTS[1])),
        lambda: writer.start([request(PROMPTS[1])]),
        lambda: writer.generate([PROMPTS[1]]),
        lambda: writer.stream([PROMPTS[1]]),
    ]
    for call in calls:
        with refused("other-half", "no plan `prefill`: its package is for decode only"):
            call()
    calls = [lambda: reader.start_from(record), lambda: reader.generate([PROMPTS[1]])]
    for call in calls:
        with refused("other-half", "no plan `decode`: its package is for prefill only"):
            call()
    assert reader.step(3) == 0
    assert not reader.busy


def test_what_is_no_request_or_record_is_refused() -> None:
    with pytest.raises(GraphError):
        engine().prefill([1, 2])  # type: ignore[arg-type]
    with pytest.raises(GraphError):
        engine().start_from("record")  # type: ignore[arg-type]


@pytest.fixture
def record() -> TransferRecord:
    return engine("prefill", drafts=2).prefill(request(PROMPTS[3], sampling=Sampling(seed=2**40)))


def test_a_record_of_another_form_is_refused(record: TransferRecord) -> None:
    writer, rows = engine("decode", drafts=2), record.caches["cache.0.0"]

    def with_cache(**caches: Any) -> TransferRecord:
        named = {name.replace("_", "."): each for name, each in caches.items()}
        return replace(record, caches={**record.caches, **named})

    for other, words in (
        (replace(record, model="n"), "model n"),
        (replace(record, drafts=(1,)), "1 draft tokens, a step here has 2"),
        (with_cache(cache_0_0=rows[:-1]), "shape [8], for 9 tokens it is [9]"),
        (with_cache(cache_0_0=rows.astype(np.float32)), "float32, the engine keeps int32"),
        (with_cache(cache_1_0=rows), "does not have `cache.1.0`"),
        (replace(record, caches={"cache.0.0": rows}), "lacks `cache.draft.0.0`"),
    ):
        with refused("other-record", words):
            writer.start_from(other)
    with refused("context-limit"):
        engine("decode", drafts=2, table_blocks=4).start_from(record)
    with refused("cache-full"):
        engine("decode", drafts=2, blocks=3).start_from(record)
    assert not writer.busy
    writer.start_from(record)


def test_a_file_holds_the_whole_record(record: TransferRecord, tmp_path: Path) -> None:
    path = tmp_path / "r.safetensors"
    record.save(path)
    record.save(path)
    assert [each.name for each in tmp_path.iterdir()] == [path.name]
    again = TransferRecord.load(path)
    for name, each in record.tensors().items():
        assert np.array_equal(again.tensors()[name], each), name
        assert again.tensors()[name].dtype == each.dtype
    assert again.model == "m"
    assert (again.first_token, again.drafts) == (record.first_token, record.drafts)
    assert (again.bytes_per_token, again.draft_bytes_per_token) == (8, 4)
    assert again.bytes == record.bytes < path.stat().st_size


def test_every_changed_byte_is_noticed(record: TransferRecord, tmp_path: Path) -> None:
    path, broken = tmp_path / "r", tmp_path / "b"
    record.save(path)
    data = path.read_bytes()
    codes: set[str] = set()
    for place in range(len(data)):
        changed = bytearray(data)
        changed[place] ^= 1
        if data[place : place + 1] == b" " and place > 8:
            continue  # blanks behind the header; another one is no JSON, or blank as well
        broken.write_bytes(changed)
        with pytest.raises(GraphError) as found:
            TransferRecord.load(broken)
        codes.add(found.value.code)
    assert codes == {"record-damaged", "record-version"}


@pytest.mark.parametrize("kept", [0, 7, 100, -1])
def test_a_truncated_file_is_damaged(record: TransferRecord, tmp_path: Path, kept: int) -> None:
    path = tmp_path / "r"
    record.save(path)
    path.write_bytes(path.read_bytes()[:kept])
    with refused("record-damaged", str(path)):
        TransferRecord.load(path)


def test_other_files_are_no_records(record: TransferRecord, tmp_path: Path) -> None:
    with refused("record-damaged", "cannot be read"):
        TransferRecord.load(tmp_path / "none")
    path = tmp_path / "r"
    record.save(path)
    text = path.read_bytes()
    path.write_bytes(text.replace(b'"version":"3"', b'"version":"1"'))
    with refused("record-version", "version 1, this version reads 3"):
        TransferRecord.load(path)
    path.write_bytes(text.replace(b"ascendfx-transfer", b"ascendfx_transfer"))
    with refused("record-damaged", "no transfer record"):
        TransferRecord.load(path)
    with refused("not-writable"):
        record.save(tmp_path / "none" / "r")
