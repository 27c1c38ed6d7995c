"""Rows of draft layers against a plain loop over places."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.op import Array
from ascendfx.ir.ops import AlignDrafts
from ascendfx.ir.step_state import RECENT_COLUMNS, State
from tests.ir.step_cases import align_case


@given(st.data())
def test_rows_end_at_the_last_accepted_token(data: st.DataObject) -> None:
    op, operands = data.draw(align_case())
    found = [each.tolist() for each in op.reference(*operands)]
    wanted = _plainly(op, operands)
    assert found[:6] == wanted[:6]
    assert found[6] == wanted[6]


def _plainly(op: AlignDrafts, operands: list[Array]) -> list[list[int] | list[list[int]]]:
    ids, table, state, accepted, new, recent = operands
    rows, window = op.drafts + 1, 2 * op.drafts + 1
    out_ids, places, slots, last, kept, held = ([] for _ in range(6))
    newest: list[list[int]] = []
    for b in range(len(state)):
        length, runs = int(state[b, State.LENGTH]), state[b, State.FINISHED] == 0
        text = {length - 1 - i: int(recent[b, i]) for i in range(RECENT_COLUMNS)}
        text |= {length + i: int(ids[b * rows + i]) for i in range(accepted[b] + 1)}
        end = length + int(accepted[b])
        text[end + 1] = int(new[b])
        for i in range(rows):
            at = end - op.drafts + i
            out_ids.append(text[at + 1] if at >= 0 else 0)
            at, before = max(at, 0), at < 0
            column = at // op.block
            block = int(table[b, column]) if column < table.shape[1] else -1
            stored = runs and not before and block >= 0
            places.append(at)
            slots.append(block * op.block + at % op.block if stored else -1)
            held.append(b * window + at % window)
            kept.append(b * window + (length + i) % window if runs else -1)
        last.append(b * rows + op.drafts)
        newest.append([text[end - i] for i in range(RECENT_COLUMNS)])
    return [out_ids, places, slots, last, kept, held, newest]


def test_what_is_kept_is_found_in_later_steps() -> None:
    """A step finds the hidden state of every position that it or the steps before it kept."""
    random = np.random.default_rng(0)
    op = AlignDrafts(3)
    state = np.zeros((1, 16), np.int64)
    memory = dict[int, int]()
    recent = np.full((1, RECENT_COLUMNS), -1)
    for _ in range(50):
        accepted = random.integers(0, 4, 1)
        length = int(state[0, State.LENGTH])
        operands = (np.arange(4), np.zeros((1, 9), int), state, accepted, np.zeros(1, int), recent)
        _, places, slots, _, kept, held, recent = op.reference(*operands)
        memory |= dict(zip(kept.tolist(), range(length, length + 4), strict=True))
        inside = slots >= 0
        assert [memory[at] for at in held[inside]] == places[inside].tolist()
        assert places[-1] == length + accepted[0]
        state = state.copy()
        state[0, State.LENGTH] += accepted[0] + 1
