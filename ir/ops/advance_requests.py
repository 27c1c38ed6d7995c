"""What a decode step leaves for the next one."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from ascendfx.ir.cache_block import slots_of
from ascendfx.ir.diagnostic import OpTypeError
from ascendfx.ir.draft_tree import depths_of
from ascendfx.ir.op import Array, Op
from ascendfx.ir.places import fits_places, places_of
from ascendfx.ir.step_state import (
    HELD,
    NO_DRAFT,
    OPTION_COLUMNS,
    RATE_ONE,
    RATE_SHIFT,
    RETRY_STEPS,
    STEP_COLUMNS,
    STOP_COLUMNS,
    Finish,
    State,
)
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.ir.token_choice import wants_penalties

_FIXED = 12
"""Operands before the draft tokens."""


@dataclass(frozen=True, slots=True)
class AdvanceRequests(Op):
    """The rows, states and emitted tokens after a step: accepted drafts and a new token appended.

    | operand | type | result |
    |---|---|---|
    | ``token_ids``, ``positions``, ``slots`` | i32 ``[requests * (drafts + 1)]`` | 0, 1, 2 |
    | ``block_table`` | i32 ``[requests, table_blocks]`` | |
    | ``state`` | i32 ``[requests, 16]``, see `ascendfx.ir.step_state.State` | 3 |
    | ``stop_ids`` | i32 ``[requests, 8]``, negative: unused | |
    | ``accepted``, ``new_tokens`` | i32 ``[requests]``, of `VerifyDrafts` | |
    | ``emitted`` | i32 ``[steps, requests, drafts + 2]``, a ring | 4 |
    | ``step`` | i32 ``[16]``, element 0 counts steps, the others say which RATE pays | 5 |
    | ``counts`` | i32 ``[places, vocab]``, see `SampleTokens` | 6 |
    | ``options`` | f32 ``[requests, 16]`` | |
    | ``path`` | i32 ``[requests, drafts + 1]``, of `VerifyTree`; only with ``parents`` | |
    | ``draft_tokens`` | ``drafts`` operands i32 ``[requests]``, or none | |

    A place that runs (``FINISHED`` is 0) emits its accepted drafts and then its new token, up to
    the first of these: ``LIMIT`` tokens in all (finished: limit); a negative token (not finite); a
    stop token behind at least ``MINIMUM`` tokens (stop), in this order. What stops is not emitted.
    ``emitted[step[0] mod steps, b]`` becomes the count and the tokens; behind them -1 up to column
    ``1 + DRAFTED`` and -2 from there on, so that it tells how many drafts the step had. A place
    that does not run has the count 0. ``GENERATED`` grows by the count and ``STEPS`` by 1, whether
    it runs on or not.

    A place that runs on has ``PROPOSED`` grown by ``DRAFTED`` and ``ACCEPTED`` by ``accepted``: of
    a step that ends a request, what is behind its end is not known to be right or wrong. It has
    ``LENGTH`` grown by ``accepted + 1``; its rows carry the new token and the draft tokens (0
    without) at positions from ``LENGTH`` on, with the slots
    ``block_table[b, p div block] * block + p mod block``, or -1 where the table has no block;
    ``DRAFTED = min(DRAFTS, drafts)`` if there are draft tokens, else 0. Other places keep tokens
    and positions; their slots are -1, so that they store nothing.

    With draft tokens ``RATE`` of a place that runs becomes
    ``RATE + (65536 accepted - RATE tried) / 16``, rounded down. *Tried* are the accepted drafts and
    the first rejected one, if there is one. Those behind it say nothing, and with them the
    estimate would depend on the number of drafts, which it is to decide. If *a* is the
    probability that a draft is accepted when those before it were, ``accepted - a tried`` is 0 on
    average however many drafts there are (each trial is, given what came before), so *a* is the
    one point from which RATE does not drift. It is the acceptance rate of Leviathan, Kalman and
    Matias, Fast inference from transformers via speculative decoding (2023), section 3.1, and
    means the same for all verifications. A step tries fewer than 16 drafts: RATE stays within 0
    and 1. A place that runs on and is ``ADAPTIVE`` then has as ``DRAFTS`` the number of elements
    ``step[1..]`` that are at most ``RATE``, unless ``step[1]`` is negative; instead of 0 it is 1
    where ``STEPS`` is a multiple of 16.

    With ``parents`` the rows are nodes of a tree, and drafts are those of its nodes: a place emits
    the tokens along ``path``, node ``i`` stands at position ``LENGTH`` + its depth and has the slot
    of ``LENGTH + i``, and ``PROPOSED`` grows by the depth of node ``DRAFTED``, so that it counts
    what can be accepted. ``step[d]`` is of depth ``d``, and ``DRAFTS`` the nodes up to a depth.

    Each token that a place emits adds 2 to its element of ``counts`` in row ``PLACE``, if the
    request's options have penalties.

    Attributes:
        drafts: Draft tokens of a place.
        block: Tokens of a block of the caches.
        parents: Of each node of a tree, see `VerifyTree`; empty: the rows are a chain.
    """

    mnemonic: ClassVar[str] = "advance_requests"
    in_place: ClassVar[Mapping[int, int]] = {0: 0, 1: 1, 2: 2, 3: 4, 4: 8, 5: 9, 6: 10}

    drafts: int
    block: int = 128
    parents: tuple[int, ...] = ()

    @property
    def fixed(self) -> int:
        """Operands before the draft tokens."""
        return _FIXED + bool(self.parents)

    def infer(self, *operands: TensorType) -> tuple[TensorType, ...]:
        """Return the types of the operands that change.

        Raises:
            OpTypeError: The number of operands, their shapes or formats do not fit.
        """
        fixed = self.fixed
        if len(operands) not in (fixed, fixed + self.drafts) or self._is_odd():
            raise OpTypeError(
                f"advance_requests: {len(operands)} operands; {fixed} are wanted, and "
                f"{self.drafts} draft tokens or none, below {self.parents or 'each other'}"
            )
        token_ids, positions, slots, table, state, stops, accepted, new = operands[:8]
        emitted, step, counts, options = operands[8:_FIXED]
        places = places_of(state)
        if places is None or not fits_places(token_ids, places, self.drafts):
            raise OpTypeError(
                f"advance_requests: rows {token_ids} do not fit {self.drafts} drafts of the places "
                f"{state}"
            )
        if not token_ids == positions == slots:
            raise OpTypeError(f"advance_requests: {positions} and {slots} must be {token_ids}")
        for kind in (accepted, new, *operands[fixed:]):
            if kind != places:
                raise OpTypeError(f"advance_requests: {kind} must be {places}")
        tables = (
            (table, (*places.shape, *table.shape[-1:])),
            (stops, (*places.shape, STOP_COLUMNS)),
            (emitted, (*emitted.shape[:1], *places.shape, self.drafts + 2)),
            (step, (STEP_COLUMNS,)),
            (counts, counts.shape),
            *((path, (*places.shape, self.drafts + 1)) for path in operands[_FIXED:fixed]),
        )
        for kind, shape in tables:
            if kind != TensorType(DType.I32, shape):
                raise OpTypeError(
                    f"advance_requests: {kind} does not fit {self.drafts} drafts of {state}"
                )
        if counts.rank != 2 or options != TensorType(DType.F32, (*places.shape, OPTION_COLUMNS)):
            raise OpTypeError(
                f"advance_requests: {counts} and {options} do not fit the places {state}"
            )
        return token_ids, positions, slots, state, emitted, step, counts

    def _is_odd(self) -> bool:
        """Return whether attributes do not fit each other, or blocks hold nothing."""
        return self.block < 1 or len(self.parents) not in (0, self.drafts + 1)

    def reference(self, *operands: Array) -> tuple[Array, ...]:
        """Advance all places at once."""
        token_ids, positions, slots, table, state, stops, accepted, new = operands[:8]
        emitted, step, counts, options = operands[8:_FIXED]
        path, drafts = operands[_FIXED : self.fixed], operands[self.fixed :]
        columns = np.arange(self.drafts + 1)
        depths = np.array(depths_of(self.parents) or columns)
        ids, positions, slots = (
            each.reshape(-1, self.drafts + 1) for each in (token_ids, positions, slots)
        )
        runs = state[:, State.FINISHED] == Finish.RUNS
        ordered, proposed = ids, state[:, State.DRAFTED].copy()
        if path:
            ordered = np.take_along_axis(ids, np.maximum(path[0], 0), axis=1)
            proposed = depths[np.clip(proposed, 0, self.drafts)]
        tokens = _appended(ordered, accepted, new)
        count, finish = _cut(tokens, accepted, state, stops)
        count = np.where(runs, count, 0)
        goes_on = runs & (finish == Finish.RUNS)

        state = state.copy()
        state[:, State.FINISHED] = np.where(runs, finish, state[:, State.FINISHED])
        state[:, State.GENERATED] += count
        state[:, State.STEPS] += runs
        for column, more in ((State.PROPOSED, proposed), (State.ACCEPTED, accepted)):
            state[:, column] += np.where(goes_on, more, 0)
        state[:, State.LENGTH] += np.where(goes_on, accepted + 1, 0)
        had, wanted = state[:, State.DRAFTED].copy(), 0
        if drafts:
            rate = moved_rate(state[:, State.RATE], accepted, proposed)
            state[:, State.RATE] = np.where(runs, rate, state[:, State.RATE])
            chosen = _chosen(state, step, depths)
            chooses = goes_on & (state[:, State.ADAPTIVE] != 0) & (step[1] > HELD)
            state[:, State.DRAFTS] = np.where(chooses, chosen, state[:, State.DRAFTS])
            wanted = np.minimum(state[:, State.DRAFTS], self.drafts)
        state[:, State.DRAFTED] = np.where(goes_on, wanted, state[:, State.DRAFTED])

        following = np.zeros_like(ids)
        for column, each in enumerate((new, *drafts)):
            following[:, column] = each
        length = state[:, State.LENGTH, None]
        on = goes_on[:, None]
        emitted = emitted.copy()
        behind = np.where(columns <= had[:, None], -1, NO_DRAFT)
        cut = np.where(columns < count[:, None], tokens, behind)
        emitted[step[0] % len(emitted)] = np.concatenate([count[:, None], cut], axis=1)
        step = step.copy()
        step[0] += 1
        counted = np.where(wants_penalties(options)[:, None], cut, -1)
        which, column = np.nonzero(counted >= 0)
        counts = counts.copy()
        np.add.at(counts, (state[which, State.PLACE], counted[which, column]), 2)
        return (
            np.where(on, following, ids).reshape(-1),
            np.where(on, length + depths, positions).reshape(-1),
            np.where(on, slots_of(table, length + columns, self.block), -1).reshape(-1),
            state,
            emitted,
            step,
            counts,
        )


def _appended(ids: Array, accepted: Array, new: Array) -> Array:
    """Return the accepted drafts of each place, and its new token in the columns behind them."""
    drafts = np.concatenate([ids[:, 1:], new[:, None]], axis=1)
    return np.where(np.arange(ids.shape[1]) < accepted[:, None], drafts, new[:, None])


def _cut(tokens: Array, accepted: Array, state: Array, stops: Array) -> tuple[Array, Array]:
    """Return how many tokens each place emits, and why it does not run on."""
    columns = np.arange(tokens.shape[1])
    before = state[:, State.GENERATED, None] + columns
    stop = ((tokens[:, :, None] == stops[:, None]) & (stops[:, None] >= 0)).any(axis=2)
    cause = np.where(stop & (before >= state[:, State.MINIMUM, None]), Finish.STOP, Finish.RUNS)
    cause = np.where(tokens < 0, Finish.NOT_FINITE, cause)
    cause = np.where(before >= state[:, State.LIMIT, None], Finish.LIMIT, cause)
    cause = np.where(columns <= accepted[:, None], cause, Finish.RUNS)
    ends = (cause != Finish.RUNS).any(axis=1)
    first = (cause != Finish.RUNS).argmax(axis=1)
    count = np.where(ends, first, accepted + 1)
    full = state[:, State.GENERATED] + count >= state[:, State.LIMIT]
    behind = np.where(full, Finish.LIMIT, Finish.RUNS)
    return count, np.where(ends, cause[np.arange(len(tokens)), first], behind)


def moved_rate(rate: Array, accepted: Array, drafted: Array) -> Array:
    """Return the estimates behind a step with ``drafted`` drafts in a row for each place."""
    tried = accepted + (accepted < drafted)
    return rate * ((1 << RATE_SHIFT) - tried) + accepted * RATE_ONE >> RATE_SHIFT


def _chosen(state: Array, step: Array, depths: Array) -> Array:
    """Return the drafts of each place's next step, as its RATE and STEPS want them."""
    pays = step[1 : depths.max() + 1] <= state[:, State.RATE, None]
    depth = pays.sum(axis=1, dtype=np.int64)
    tries = (depth == 0) & (state[:, State.STEPS] % RETRY_STEPS == 0)
    return (depths <= np.where(tries, 1, depth)[:, None]).sum(axis=1) - 1
