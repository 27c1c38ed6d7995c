"""What the backend of torch.compile left to PyTorch, and why."""

import logging
import re
from collections.abc import Generator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

_LOGGER = logging.getLogger("ascendfx")
_REASONS = 8
"""A summary has no more; a whole model has hundreds of remarks, for a few reasons."""

_NOTES = {
    "no-row-form": "[no-row-form] is expected for attention in a plain layer, whose products and "
    "softmax mix rows: it is a kernel only over caches, where it serves (ascendfx.compile)"
}
"""What a new user should know of a code, said once in a summary."""


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
_summaries = 0
"""How many `summed_up` are going on."""


def remark(what: str, code: str, reason: str, cause: BaseException | None = None) -> None:
    """Keep a remark and log it once, with the traceback of its cause if it has one.

    Inside of `summed_up` it is logged as a detail (DEBUG), unless it has a cause.
    """
    found = EagerRemark(what, code, reason)
    if found not in _remarks:
        _remarks.append(found)
        level = logging.DEBUG if _summaries and cause is None else logging.WARNING
        _LOGGER.log(level, "%s", found, exc_info=cause)


@contextmanager
def summed_up() -> Generator[None]:
    """Log the remarks that come up inside as one warning."""
    global _summaries  # noqa: PLW0603  # as the list of remarks
    first = len(_remarks)
    _summaries += 1
    try:
        yield
    finally:
        _summaries -= 1
        if lines := summary_of(_remarks[first:]):
            _LOGGER.warning("%s", "\n".join(lines))


def summary_of(found: Sequence[EagerRemark]) -> list[str]:
    """Return the number of remarks for each reason, with the first; one remark is told as it is.

    What a code means that is no fault of the model is said behind them.
    """
    if len(found) < 2:
        return [*map(str, found), *_notes(found)]
    reasons: dict[tuple[str, str], list[EagerRemark]] = {}
    for each in found:
        reasons.setdefault((each.code, _kind_of(each.reason)), []).append(each)
    ordered = sorted(reasons.values(), key=len, reverse=True)
    lines = [f"{len(found)} parts of the graph run eagerly:"]
    for same in ordered[:_REASONS]:
        first = same[0]
        which = "" if len(same) == 1 else "first "
        lines.append(f"  {len(same)} [{first.code}]: {which}{first.what}: {first.reason}")
    if len(ordered) > _REASONS:
        rest = sum(map(len, ordered[_REASONS:]))
        lines.append(f"  {rest} for {len(ordered) - _REASONS} other reasons")
    lines += _notes(found)
    lines.append(f"each of them: {__name__}.remarks(), or the logger `ascendfx` at DEBUG")
    return lines


def _notes(found: Sequence[EagerRemark]) -> list[str]:
    return [note for code, note in _NOTES.items() if any(each.code == code for each in found)]


def _kind_of(reason: str) -> str:
    """Return a reason without place and numbers, which tell apart what is refused alike."""
    return re.sub(r"\d+", "0", re.sub(r" at \S+:\d+( in \S+)?$", "", reason))


def remarks() -> tuple[EagerRemark, ...]:
    """Return the remarks since `clear_remarks`, oldest first."""
    return tuple(_remarks)


def clear_remarks() -> None:
    """Forget all remarks."""
    _remarks.clear()
