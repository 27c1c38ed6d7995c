"""Requests that wait: cancelling one does not look at all others."""

import pytest

from ascendfx.runtime.engine.places import Entry
from ascendfx.runtime.engine.request import Request
from tests.engine.served import engine

REQUESTS = 512
HALVINGS = 10


class Compared(int):
    """An id that counts how often it is compared."""

    times = 0

    def __lt__(self, other: int) -> bool:
        Compared.times += 1
        return int(self) < int(other)


@pytest.mark.parametrize("order", [1, -1])
def test_cancelling_who_waits_compares_with_few(
    order: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    def equal(one: Entry, other: object) -> bool:
        Compared.times += 1
        return one is other

    served = engine()
    ids = served.start([Request(prompt=[1], max_new_tokens=2)] * REQUESTS)
    for entry in served._entries.values():  # pyright: ignore[reportPrivateUsage]
        entry.id = Compared(entry.id)
    monkeypatch.setattr(Entry, "__eq__", equal)
    Compared.times = 0
    for each in ids[::order]:
        served.cancel(each)
    assert Compared.times <= REQUESTS * HALVINGS
    assert not served.busy
    assert [each.finish_reason for each in served.poll()] == ["cancelled"] * REQUESTS
