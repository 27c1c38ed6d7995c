"""What the backend of torch.compile left to PyTorch, and why."""

import logging
from dataclasses import dataclass

_LOGGER = logging.getLogger("ascendfx")


@dataclass(frozen=True, slots=True)
class EagerRemark:
    """One part of a compiled graph that runs eagerly.

    Attributes:
        what: The call, or the graph.
        code: Of the `GraphError` that refused it.
        reason: Why, with the line of the model.
    """

    what: str
    code: str
    reason: str

    def __str__(self) -> str:
        return f"{self.what} runs eagerly: {self.reason} [{self.code}]"


_remarks: list[EagerRemark] = []


def remark(what: str, code: str, reason: str, cause: BaseException | None = None) -> None:
    """Keep a remark and log it once, with the traceback of its cause if it has one."""
    found = EagerRemark(what, code, reason)
    if found not in _remarks:
        _remarks.append(found)
        _LOGGER.warning("%s", found, exc_info=cause)


def remarks() -> tuple[EagerRemark, ...]:
    """Return the remarks since `clear_remarks`, oldest first."""
    return tuple(_remarks)


def clear_remarks() -> None:
    """Forget all remarks."""
    _remarks.clear()
