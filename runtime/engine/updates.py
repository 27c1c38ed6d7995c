"""What `Engine.poll` returns: news in columns, which are also read as a list of `Update`."""

from collections.abc import Iterable, Iterator, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np
from numpy.typing import NDArray

from ascendfx.runtime.engine.place_arrays import Taken
from ascendfx.runtime.engine.request import Update


class Updates(Sequence[Update]):
    """News of requests, one update each; a `Sequence` that equals the list of its updates.

    An `Update` is made when somebody looks at one, and then all are: a Python object for each
    request and each token. A server that passes token ids on reads the columns instead, in which
    nothing is made for a request. They belong to the caller.

    Attributes:
        ids: i64 ``[updates]``, the requests.
        ends: i32 ``[updates]``, where the tokens of each end; they begin where those before it end.
        tokens: i32, new tokens of all of them.
        ended: Updates with a finish reason; their tokens stand in the columns, too.
    """

    __slots__ = ("_made", "_rest", "ended", "ends", "ids", "tokens")

    def __init__(self, taken: Taken, rest: Sequence[Update] = ()) -> None:
        """Take news over.

        Args:
            taken: Of requests that run.
            rest: Of others; they come last.
        """
        self.ids, self.ends, self.tokens = taken
        self._rest = rest
        self._made: list[Update] | None = None
        self.ended = tuple(each for each in rest if each.finish_reason)
        if rest:
            more = [len(each.token_ids) for each in rest]
            self.ids = _joined(self.ids, [each.request for each in rest])
            self.ends = _joined(self.ends, self.tokens.size + np.cumsum(more))
            self.tokens = _joined(self.tokens, [i for each in rest for i in each.token_ids])

    def __len__(self) -> int:
        return len(self.ids)

    def __iter__(self) -> Iterator[Update]:
        return iter(self._updates())

    @overload
    def __getitem__(self, index: SupportsIndex) -> Update: ...

    @overload
    def __getitem__(self, index: slice) -> list[Update]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> Update | list[Update]:
        return self._updates()[index]

    def __eq__(self, other: object) -> bool:
        if isinstance(other, Updates):
            return self._updates() == other._updates()
        return self._updates() == other if isinstance(other, list) else NotImplemented

    __hash__ = None  # pyright: ignore[reportAssignmentType]

    def __repr__(self) -> str:
        return repr(self._updates())

    def _updates(self) -> list[Update]:
        if self._made is None:
            make = tuple.__new__  # `Update(...)` takes twice as long
            tokens, ends = tuple(self.tokens.tolist()), self.ends.tolist()
            running = len(ends) - len(self._rest)
            columns = zip(self.ids.tolist()[:running], [0, *ends], ends, strict=False)
            self._made = [
                make(Update, (request, tokens[start:end], "", None, None))
                for request, start, end in columns
            ]
            self._made += self._rest
        return self._made


def _joined(column: NDArray[Any], more: Iterable[int]) -> NDArray[Any]:
    return np.concatenate([column, np.array(more, column.dtype)])
