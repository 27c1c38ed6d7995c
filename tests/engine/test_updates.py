"""What `poll` returns is a list of updates to those who look, and columns to those who do not."""

from typing import Any

import numpy as np
import pytest

from ascendfx.runtime.emulator.kernel_cache import default_cache_dir
from ascendfx.runtime.emulator.runner_tools import tools_of_host
from ascendfx.runtime.engine.place_arrays import Taken
from ascendfx.runtime.engine.request import Request, Update
from ascendfx.runtime.engine.updates import Updates
from tests.engine.columns import assert_columns_tell
from tests.engine.fake_executor import FakeExecutor
from tests.engine.served import served_by
from tests.engine.toy_model import expected

RUNNING = [Update(7, (1, 2)), Update(3, (5,))]
PAUSED, ENDED, CANCELLED = Update(4, (6, 8)), Update(9, (9,), "stop"), Update(2, (), "cancelled")


def news(*rest: Update) -> Updates:
    tokens = np.array([1, 2, 5], np.int32)
    return Updates(Taken(np.array([7, 3], np.int64), np.array([2, 3], np.int32), tokens), rest)


@pytest.mark.parametrize("rest", [(), (PAUSED,), (ENDED, PAUSED, CANCELLED), (CANCELLED,)])
def test_columns_have_the_tokens_of_all(rest: tuple[Update, ...]) -> None:
    updates = news(*rest)
    assert_columns_tell(updates)
    assert list(updates) == [*RUNNING, *rest]
    assert updates.ended == tuple(each for each in rest if each is not PAUSED)


def test_updates_read_like_a_list() -> None:
    updates, plain = news(ENDED), [*RUNNING, ENDED]
    assert len(updates) == 3
    assert updates == plain
    assert plain == updates
    assert updates == news(ENDED)
    assert updates != news()
    assert updates != tuple(plain)  # as a list
    assert updates[0] == plain[0]
    assert updates[-1] is ENDED
    assert updates[1:] == plain[1:]
    assert ENDED in updates
    assert PAUSED not in updates
    assert updates.index(RUNNING[1]) == 1
    assert list(reversed(updates)) == plain[::-1]
    assert repr(updates) == repr(plain)
    assert news()
    none = np.zeros(0, np.int32)
    assert not Updates(Taken(np.zeros(0, np.int64), none, none))
    with pytest.raises(IndexError):
        updates[3]
    with pytest.raises(TypeError, match="unhashable"):
        hash(updates)


def test_an_update_is_made_when_somebody_looks() -> None:
    updates = news()
    updates.tokens[0] = 11  # columns belong to the caller
    first = updates[0]
    assert first == Update(7, (11, 2))
    assert updates[0] is first
    assert all(type(token) is int for token in first.token_ids)


@pytest.mark.parametrize("native", [False, True])
def test_news_stay_as_they_were(native: Any) -> None:
    """Later steps and polls write elsewhere."""
    device = FakeExecutor(drafts=2)
    if native:
        device.tools = tools_of_host(default_cache_dir())  # type: ignore[attr-defined]
    served = served_by(device)
    requests = [Request(prompt=[start], max_new_tokens=12) for start in (1, 2, 4)]
    ids = served.start(requests)
    polls = []
    while served.busy:
        served.step(1)
        polls.append(served.poll())
    tokens: dict[int, tuple[int, ...]] = dict.fromkeys(ids, ())
    for updates in polls:
        assert_columns_tell(updates)
        for each in updates:
            tokens[each.request] += each.token_ids
    assert list(tokens.values()) == [expected(each)[0] for each in requests]
