"""Whether the numbers of a transfer record can be those of a prefill.

A file is guarded by its hash; records that are built in memory or by another writer are not. What
is accepted here goes into control tensors, where a wrong number would stop the steps of everybody.
"""

from collections.abc import Mapping

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.draft_tree import DraftTree
from ascendfx.ir.step_state import (
    OPTION_COLUMNS,
    STATE_COLUMNS,
    STOP_COLUMNS,
    Option,
    State,
    Verification,
)
from ascendfx.runtime.engine.transfer_record import TransferRecord


def check_record(record: TransferRecord, tree: DraftTree, vocabulary: int) -> None:
    """Check tensors, tokens, state and options of a record, and that caches hold numbers.

    Args:
        record: Of any origin.
        tree: Drafts of a step of the engine.
        vocabulary: Its tokens.

    Raises:
        GraphError: No prefill writes such a record.
    """
    tensors: dict[str, tuple[object, type[np.generic], tuple[int, ...]]] = {
        "tokens": (record.tokens, np.int32, np.shape(record.tokens)[:1]),
        "options": (record.options, np.float32, (OPTION_COLUMNS,)),
        "state": (record.state, np.int32, (STATE_COLUMNS,)),
        "stop_ids": (record.stop_ids, np.int32, (STOP_COLUMNS,)),
    }
    for name, (given, dtype, shape) in tensors.items():
        if not isinstance(given, np.ndarray) or given.dtype != dtype or given.shape != shape:
            raise _damaged(f"`{name}` is no {np.dtype(dtype).name} array {list(shape)}")
    if not isinstance(record.caches, Mapping):  # pyright: ignore[reportUnnecessaryIsInstance]
        raise _damaged("`caches` is no mapping")
    _check_tokens(record, vocabulary)
    _check_columns(record, tree)
    for name, rows in record.caches.items():
        if not _is_finite(rows):
            raise _damaged(f"`{name}` holds something else than finite numbers")


def _check_tokens(record: TransferRecord, vocabulary: int) -> None:
    for token in (record.first_token, *record.drafts):
        if not _is_id(token, vocabulary):
            raise _damaged(f"token {token} is outside the vocabulary, 0..{vocabulary - 1}")


def _is_id(token: object, vocabulary: int) -> bool:
    return isinstance(token, int | np.integer) and 0 <= int(token) < vocabulary


def _is_finite(rows: object) -> bool:
    return isinstance(rows, np.ndarray) and bool(np.isfinite(rows).all())


def _check_columns(record: TransferRecord, tree: DraftTree) -> None:
    state, options = record.state, record.options
    for column, fits in (
        (State.GENERATED, state[State.GENERATED] == 0),
        (State.LIMIT, state[State.LIMIT] > 0),
        (State.MINIMUM, state[State.MINIMUM] >= 0),
        (State.DRAFTS, state[State.DRAFTS] in tree.ends),
        (State.ADAPTIVE, state[State.ADAPTIVE] in (0, 1)),
    ):
        if not fits:
            raise _damaged(f"state column {column.name} is {state[column]}")
    if not np.isfinite(options).all():
        raise _damaged("an option is no finite number")
    if options[Option.TEMPERATURE] < 0 or options[Option.VERIFICATION] not in list(Verification):
        raise _damaged("temperature or verification is out of range")


def _damaged(why: str) -> GraphError:
    return GraphError(
        "record-damaged",
        f"the record is not one that a prefill writes: {why}",
        hint="write it with `Engine.prefill`, and change nothing in it",
    )
