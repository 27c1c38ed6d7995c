"""Processes that share an evaluation: the only place that knows torch.distributed.

Here they talk by gloo, on Ascend by HCCL. What they send each other are Python objects of this
package: a group is of one user's processes.
"""

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import timedelta
from importlib import import_module
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Protocol

from ascendfx.ir.diagnostic import GraphError

BACKENDS = {"gloo": "torch", "hccl": "torch_npu"}
"""The package that each needs."""
_PATIENCE = timedelta(days=1)
"""The longest sample that another worker waits for."""


class Workers(Protocol):
    """A process among those of an evaluation."""

    @property
    def rank(self) -> int:
        """Its number."""
        ...

    @property
    def size(self) -> int:
        """How many there are."""
        ...

    def gather(self, value: Any) -> Sequence[Any]:
        """Return what every process gives, by rank."""
        ...

    def from_last(self, value: Any) -> Any:
        """Return what the last process gives."""
        ...

    def send(self, value: Any) -> None:
        """Hand something to the next process."""
        ...

    def receive(self) -> Any:
        """Return what the process before this one sent."""
        ...


@dataclass(frozen=True, slots=True)
class Alone:
    """The only process."""

    rank: int = 0
    size: int = 1

    def gather(self, value: Any) -> Sequence[Any]:
        """Return what it gives."""
        return [value]

    def from_last(self, value: Any) -> Any:
        """Return what it gives."""
        return value

    def send(self, value: Any) -> None:
        """There is nobody."""
        raise AssertionError("one process sends nothing")

    def receive(self) -> Any:
        """There is nobody."""
        raise AssertionError("one process receives nothing")


class ProcessGroup:
    """A process of a group of torch.distributed.

    Attributes:
        rank: Its number.
        size: How many there are.
    """

    def __init__(self, group: Any) -> None:
        self._group = group
        self.rank: int = group.get_rank()
        self.size: int = group.get_world_size()

    def gather(self, value: Any) -> Sequence[Any]:
        """Return what every process gives, by rank."""
        found: list[Any] = [None] * self.size
        self._group.all_gather_object(found, value)
        return found

    def from_last(self, value: Any) -> Any:
        """Return what the last process gives."""
        told = [value]
        self._group.broadcast_object_list(told, src=self.size - 1)
        return told[0]

    def send(self, value: Any) -> None:
        """Hand something to the next process, which has to ask for it."""
        self._group.send_object_list([value], dst=self.rank + 1)

    def receive(self) -> Any:
        """Return what the process before this one sent."""
        told = [None]
        self._group.recv_object_list(told, src=self.rank - 1)
        return told[0]

    def leave(self) -> None:
        """End the group; processes that are gone do not matter any more."""
        with suppress(RuntimeError):
            self._group.destroy_process_group()


def join_group(
    rank: int | None = None,
    size: int | None = None,
    *,
    meeting: Path | None = None,
    backend: str = "gloo",
) -> ProcessGroup:
    """Wait for the other processes, and return what is common to all.

    Args:
        rank: Number of this process; None: as torchrun says.
        size: How many there are; None: as torchrun says.
        meeting: A file that does not exist yet, the same for all; None: the address of torchrun.
        backend: One of `BACKENDS`.

    Raises:
        GraphError: There is no such backend, or its package is not installed.
    """
    if backend not in BACKENDS:
        raise GraphError(
            "unknown-backend",
            f"no way to talk among workers is called `{backend}`",
            hint=f"known: {', '.join(BACKENDS)}",
        )
    for package in ("torch", BACKENDS[backend]):
        if find_spec(package) is None:
            raise GraphError(
                code="missing-package",
                reason=f"several workers need the package `{package}`, which is not installed",
                hint="pip install 'ascendfx[capture]', or evaluate with one worker"
                if package == "torch"
                else "install it, or use the backend gloo",
            )
    group: Any = import_module("torch.distributed")
    import_module(BACKENDS[backend])
    place = f"file://{meeting.resolve()}" if meeting else "env://"
    known = {} if rank is None or size is None else {"rank": rank, "world_size": size}
    group.init_process_group(backend, init_method=place, timeout=_PATIENCE, **known)
    return ProcessGroup(group)
