"""The passes over the places, native and on NumPy: whatever happens, both leave the same arrays."""

import subprocess
from pathlib import Path

import numpy as np
import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.step_state import NO_DRAFT, STATE_COLUMNS, Finish, State
from ascendfx.runtime.emulator.kernel_cache import default_cache_dir
from ascendfx.runtime.emulator.runner_tools import tools_of_host
from ascendfx.runtime.engine.device import GroupResult, Readable
from ascendfx.runtime.engine.native_turn import UNIT, NativeTurn, source_text
from ascendfx.runtime.engine.numpy_turn import NumpyTurn
from ascendfx.runtime.engine.place_arrays import PlaceArrays

CONTEXT = 96
STEPS = 4
ENDS = (Finish.STOP, Finish.LIMIT, Finish.NOT_FINITE)


class Turns(RuleBasedStateMachine):
    """Two sets of arrays, driven alike by a device that emits what it likes."""

    @initialize(
        places=st.integers(1, 5),
        drafts=st.integers(0, 3),
        block=st.sampled_from([1, 3, 8]),
        spare=st.integers(0, 40),
    )
    def begin(self, places: int, drafts: int, block: int, spare: int) -> None:
        table = CONTEXT // block
        rows = places * (drafts + 1)
        sizes = Capacities(rows, places, CONTEXT, table + spare, table, steps=STEPS, drafts=drafts)
        self.native, self.plain = PlaceArrays(sizes, block), PlaceArrays(sizes, block)
        self.arrays = (self.native, self.plain)
        tools = tools_of_host(default_cache_dir())
        self.turns = (NativeTurn(self.native, tools), NumpyTurn(self.plain))
        self.group = 0

    @rule(data=st.data(), length=st.integers(1, 20), limit=st.integers(1, 60), polled=st.booleans())
    def join(self, data: st.DataObject, length: int, limit: int, *, polled: bool) -> None:
        place = data.draw(st.integers(0, self.plain.places - 1))
        blocks = -(-length // self.plain.block_tokens)
        if self.plain.live[place] or blocks > self.plain.pool.free:
            return
        delivered = data.draw(st.integers(0, min(3, limit)))
        for own, turn in zip(self.arrays, self.turns, strict=True):
            own.pool.give_back(own.table[place, : own.owned[place]])
            own.live[place], own.polled[place] = True, polled
            own.since[place], own.ids[place] = self.group + 1, self.group * 100 + place
            own.owned[place], own.delivered[place] = blocks, delivered
            own.table[place, :blocks] = own.pool.take(blocks)
            own.ceiling[place] = min(length + limit - 1 + own.drafts, CONTEXT)
            own.tokens[place] = 0  # rows are compared as a whole
            own.state[place] = 0
            own.state[place, [State.LENGTH, State.LIMIT]] = length, limit
            own.state[place, State.GENERATED] = delivered
            turn.forget()

    @precondition(lambda self: self.plain.live.any())
    @rule(data=st.data())
    def leave(self, data: st.DataObject) -> None:
        place = data.draw(st.sampled_from(np.flatnonzero(self.plain.live).tolist()))
        for own, turn in zip(self.arrays, self.turns, strict=True):
            turn.settle(place)
            own.live[place] = False
            turn.forget()
        known = int(self.plain.state[place, State.GENERATED])
        assert (
            self.native.tokens[place, :known].tolist() == self.plain.tokens[place, :known].tolist()
        )

    @rule(first=st.integers(1, STEPS), ahead=st.integers(0, STEPS), more=st.integers(0, 2))
    def reserve(self, first: int, ahead: int, more: int) -> None:
        """Reserve a group, and longer ones: the blocks of the one before are there."""
        for steps in range(first, first + more + 1):
            native, plain = (turn.reserve(steps, ahead) for turn in self.turns)
            assert (native is None) == (plain is None)
            if native is not None and plain is not None:
                assert native[1:] == plain[1:]
                assert native.grown.tolist() == plain.grown.tolist()

    @rule(seed=st.integers(0, 2**32), steps=st.integers(0, STEPS), late=st.booleans())
    def read(self, seed: int, steps: int, *, late: bool) -> None:
        """Read a group, perhaps after another one has been handed over."""
        self.group += 1
        places = int(np.flatnonzero(self.plain.live).max(initial=-1)) + 1
        kept = self._group(np.random.default_rng(seed), steps)
        result = GroupResult(steps, places, kept, (), {})
        group = self.group - late
        assert self.turns[0].read(result, group) == self.turns[1].read(result, group)

    @rule()
    def take(self) -> None:
        native, plain = (turn.take() for turn in self.turns)
        for one, other in zip(native, plain, strict=True):
            assert one.dtype == other.dtype
            assert one.tolist() == other.tolist()

    @rule(data=st.data())
    def settle(self, data: st.DataObject) -> None:
        place = data.draw(st.integers(0, self.plain.places - 1))
        for own, turn in zip(self.arrays, self.turns, strict=True):
            turn.settle(place)
            known = int(own.state[place, State.GENERATED]) if own.live[place] else 0
            assert own.tokens[place, :known].tolist() == self.plain.tokens[place, :known].tolist()

    @invariant()
    def arrays_are_equal(self) -> None:
        native, plain = self.native, self.plain
        for name, array in vars(native).items():
            if isinstance(array, np.ndarray) and name != "tokens":  # see `settle`
                assert np.array_equal(array, getattr(plain, name)), name
        assert native.pool.free == plain.pool.free

    def _group(self, random: np.random.Generator, steps: int) -> Readable:
        """Return what a device could leave: the places run until they end."""
        own, columns = self.plain, self.plain.drafts + 2
        emitted = random.integers(-1, 9, (STEPS, own.places, columns), np.int32)
        state = random.integers(-9, 9, (own.places, STATE_COLUMNS), np.int32)
        for place in np.flatnonzero(own.live).tolist():
            row = state[place]
            row[:] = own.state[place]
            for step in range(steps):
                count = int(random.integers(1, columns))
                left = int(row[State.LIMIT] - row[State.GENERATED])
                if row[State.FINISHED]:
                    count = 0
                elif count >= left or random.random() < 0.1:
                    count = min(count - 1, left)
                    row[State.FINISHED] = random.choice(ENDS)
                    row[State.STEPS] += 1
                else:
                    row[State.STEPS] += 1
                    row[State.LENGTH] += count
                emitted[step, place, 0] = count
                emitted[step, place, random.integers(count, columns) + 1 :] = NO_DRAFT
                row[State.GENERATED] += count
        return Readable(emitted, state)


def test_both_forms_agree() -> None:
    run_state_machine_as_test(Turns, settings=settings(max_examples=60, deadline=None))


@pytest.mark.parametrize("places", [1, 5, 9])
@pytest.mark.parametrize("drafts", [0, 1, 3, 5])
def test_tokens_of_many_groups_are_kept(places: int, drafts: int) -> None:
    """As many as there can be, and nobody asks for them before the end."""
    groups, each = 23, STEPS * (drafts + 1)
    table = groups * each
    sizes = Capacities(places, places, table, table, table, steps=STEPS, drafts=drafts)
    arrays = PlaceArrays(sizes, 1)
    turn = NativeTurn(arrays, tools_of_host(default_cache_dir()))
    arrays.live[:] = arrays.polled[:] = True
    emitted = np.full((STEPS, places, drafts + 2), drafts + 1, np.int32)
    state, random = arrays.state.copy(), np.random.default_rng(0)
    wanted = random.integers(0, 99, (places, groups, STEPS, drafts + 1), np.int32)
    seen = 0
    for group in range(groups):
        emitted[:, :, 1:] = wanted[:, group].swapaxes(0, 1)
        state[:, State.GENERATED] += each
        state[:, State.STEPS] += STEPS
        turn.read(GroupResult(STEPS, places, Readable(emitted, state), (), {}), 0)
        if group in {0, 1, 9}:
            taken, right = turn.take(), wanted[:, seen : group + 1]
            assert taken.tokens.tolist() == right.ravel().tolist()
            assert taken.ends.tolist() == [right[0].size * (i + 1) for i in range(places)]
            seen = group + 1
    for place in range(places):
        turn.settle(place)
        assert arrays.tokens[place, :table].tolist() == wanted[place].ravel().tolist()
    assert arrays.sums[-1] == groups * STEPS * places
    assert arrays.sums[:2].tolist() == [groups * STEPS * places, groups * each * places]


@pytest.mark.parametrize("standard", ["c++17", "c++20"])
def test_the_native_form_compiles_without_a_warning(tmp_path: Path, standard: str) -> None:
    (tmp_path / UNIT).write_text(source_text())
    strict = ["-Wall", "-Wextra", "-Wpedantic", "-Wconversion", "-Wshadow", "-Werror", "-c"]
    command = ["g++", f"-std={standard}", *strict, UNIT]
    subprocess.run(command, cwd=tmp_path, check=True)
