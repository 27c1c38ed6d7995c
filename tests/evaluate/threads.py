"""Several workers as threads of one process: the same protocol without torch."""

from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from queue import Queue
from threading import Barrier, BrokenBarrierError
from typing import Any, TypeVar

T = TypeVar("T")


@dataclass
class Meeting:
    size: int
    values: list[Any] = field(default_factory=list[Any])
    queues: list["Queue[Any]"] = field(default_factory=list["Queue[Any]"])

    def __post_init__(self) -> None:
        self.values = [None] * self.size
        self.queues = [Queue() for _ in range(self.size)]
        self.barrier = Barrier(self.size)

    def give_up(self) -> None:
        self.barrier.abort()
        for each in self.queues:
            each.put(BrokenBarrierError())


@dataclass(frozen=True)
class ThreadWorker:
    rank: int
    meeting: Meeting

    @property
    def size(self) -> int:
        return self.meeting.size

    def gather(self, value: Any) -> list[Any]:
        self.meeting.values[self.rank] = value
        self.meeting.barrier.wait()
        found = list(self.meeting.values)
        self.meeting.barrier.wait()
        return found

    def from_last(self, value: Any) -> Any:
        return self.gather(value)[-1]

    def send(self, value: Any) -> None:
        self.meeting.queues[self.rank + 1].put(value)

    def receive(self) -> Any:
        found = self.meeting.queues[self.rank].get()
        if isinstance(found, BrokenBarrierError):
            raise found
        return found


def run_workers(size: int, run: Callable[[ThreadWorker], T]) -> list[T]:
    """Return what each worker returns; the first error of one is raised."""
    meeting = Meeting(size)

    def guarded(rank: int) -> T:
        try:
            return run(ThreadWorker(rank, meeting))
        except BaseException:
            meeting.give_up()  # else the others would wait for this one
            raise

    with ThreadPoolExecutor(size) as pool:
        return list(pool.map(guarded, range(size)))
