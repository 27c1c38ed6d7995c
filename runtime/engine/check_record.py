"""Whether the numbers of a transfer record can be those of a prefill.

A file is guarded by its hash; records that are built in memory or by another writer are not. What
is accepted here goes into control tensors, where a wrong number would stop the steps of everybody.
So rows are not searched for wrong numbers: they are made again, and must be equal.
"""

from collections.abc import Mapping

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
)
from ascendfx.runtime.engine.fresh_state import fresh_state
from ascendfx.runtime.engine.sampling import Sampling
from ascendfx.runtime.engine.transfer_record import TransferRecord


def check_record(record: TransferRecord, tree: DraftTree, vocabulary: int) -> None:
    """Check tensors, tokens, state and options of a record, and that caches hold numbers.

    Whether ids of the prompt are in the vocabulary, and fit the context, is not looked at.

    Args:
        record: Of any origin.
        tree: Drafts of a step of the engine.
        vocabulary: Its tokens.

    Raises:
        GraphError: No prefill writes such a record.
    """
    _check_forms(record)
    _check_tokens(record, vocabulary)
    _check_state(record, tree, _sampling_of(record))
    for name, rows in record.caches.items():
        if not _is_finite(rows):
            raise _damaged(f"`{name}` holds something else than finite numbers")


def _check_forms(record: TransferRecord) -> None:
    tensors: dict[str, tuple[object, type[np.generic], tuple[int, ...]]] = {
        "tokens": (record.tokens, np.int32, (getattr(record.tokens, "size", 0),)),
        "options": (record.options, np.float32, (OPTION_COLUMNS,)),
        "state": (record.state, np.int32, (STATE_COLUMNS,)),
        "stop_ids": (record.stop_ids, np.int32, (STOP_COLUMNS,)),
    }
    for name, (given, dtype, shape) in tensors.items():
        if not isinstance(given, np.ndarray) or given.dtype != dtype or given.shape != shape:
            raise _damaged(f"`{name}` is no {np.dtype(dtype).name} array {list(shape)}")
    others: dict[str, tuple[object, type, str]] = {
        "model": (record.model, str, "text"),
        "drafts": (record.drafts, tuple, "tuple"),
        "caches": (record.caches, Mapping, "mapping"),
    }
    for name, (given, kind, called) in others.items():
        if not isinstance(given, kind):
            raise _damaged(f"`{name}` is no {called}")
    if not all(isinstance(name, str) for name in record.caches):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _damaged("a name of `caches` is no text")


def _check_tokens(record: TransferRecord, vocabulary: int) -> None:
    if not record.tokens.size:
        raise _damaged("it has no tokens")
    stops = record.stop_ids[record.stop_ids >= 0].tolist()
    for token in (record.first_token, *record.drafts, *stops):
        if not _is_id(token, vocabulary):
            raise _damaged(f"token {token} is outside the vocabulary, 0..{vocabulary - 1}")
    row = [*dict.fromkeys(stops), *[-1] * STOP_COLUMNS][:STOP_COLUMNS]
    if record.stop_ids.tolist() != row:
        raise _damaged("`stop_ids` are not different ids with -1 behind them")


def _is_id(token: object, vocabulary: int) -> bool:
    if isinstance(token, bool) or not isinstance(token, int | np.integer):
        return False
    return 0 <= int(token) < vocabulary


def _is_finite(rows: object) -> bool:
    try:
        return isinstance(rows, np.ndarray) and bool(np.isfinite(rows).all())
    except TypeError:  # an array of objects or texts
        return False


def _sampling_of(record: TransferRecord) -> Sampling:
    try:
        sampling = Sampling.of_rows(record.options, record.state)
    except GraphError as error:
        raise _damaged(error.reason) from error
    except (ValueError, OverflowError) as error:
        raise _damaged(f"an option is no number that it can be: {error}") from error
    column = _first_difference(record.options, sampling.options())
    if column is not None:
        raise _damaged(f"option {_name(Option, column)} is {record.options[column]}")
    return sampling


def _check_state(record: TransferRecord, tree: DraftTree, sampling: Sampling) -> None:
    state = record.state
    for column, fits in (
        (State.LIMIT, state[State.LIMIT] > 0),
        (State.MINIMUM, state[State.MINIMUM] >= 0),
        (State.DRAFTS, state[State.DRAFTS] in tree.ends),
    ):
        if not fits:
            raise _damaged(f"state column {column.name} is {state[column]}")
    fresh = fresh_state(
        sampling,
        limit=int(state[State.LIMIT]),
        minimum=int(state[State.MINIMUM]),
        drafts=int(state[State.DRAFTS]),
        adaptive=bool(state[State.ADAPTIVE]),
    )
    column = _first_difference(state, fresh)
    if column is not None:
        raise _damaged(f"state column {_name(State, column)} is {state[column]}")


def _first_difference(row: NDArray[np.generic], wanted: NDArray[np.generic]) -> int | None:
    (places,) = np.nonzero(row != wanted)
    return int(places[0]) if places.size else None


def _name(columns: type[Option] | type[State], column: int) -> str:
    return columns(column).name if column in list(columns) else str(column)


def _damaged(why: str) -> GraphError:
    return GraphError(
        "record-damaged",
        f"the record is not one that a prefill writes: {why}",
        hint="write it with `Engine.prefill`, and change nothing in it",
    )
