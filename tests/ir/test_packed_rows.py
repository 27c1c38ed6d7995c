"""Packed rows are those with placeholders, without the placeholders."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from ascendfx.ir.op import Array
from ascendfx.ir.ops import AlignDrafts, PackRows, SampleTokens, VerifyDrafts
from ascendfx.ir.packed_rows import rows_of_places
from ascendfx.ir.step_state import Finish, Option, Size, State, Verification
from tests.ir.packed_cases import (
    pack_case,
    packed,
    packed_align_case,
    packed_verify_case,
    states,
)
from tests.kernels.sampling_case import Rows


@given(case=pack_case())
def test_places_keep_a_row_and_one_for_each_draft(case: tuple[PackRows, list[Array]]) -> None:
    op, (ids, positions, slots, state, sizes) = case
    *rows, starts, counted = op.reference(ids, positions, slots, state, sizes)
    wanted: list[tuple[int, int, int, int]] = []
    for place, own in enumerate(state.tolist()):
        assert starts[place] == len(wanted)
        keeps = own[State.FINISHED] in (Finish.RUNS, Finish.NOT_FINITE)
        for i in range(1 + (min(own[State.DRAFTED], op.drafts) if keeps else 0)):
            row = place * (op.drafts + 1) + i
            wanted.append((int(ids[row]), int(positions[row]), int(slots[row]), place))
    count = len(wanted)
    padding = [(0, 0, -1, 0)] * (len(ids) - count)
    assert list(zip(*(each.tolist() for each in rows), strict=True)) == wanted + padding
    assert (counted[Size.PACKED_ROWS], counted[Size.PACKED_PAIRS]) == (count, count * op.pairs)
    np.testing.assert_array_equal(counted[:5], sizes[:5])


@given(case=packed_verify_case())
def test_packed_drafts_are_verified_as_those_with_placeholders(
    case: tuple[VerifyDrafts, list[Array], list[Array]],
) -> None:
    op, operands, (ids, sampled, state) = case
    state = state.copy()
    state[:, State.DRAFTED] = rows_of_places(state, op.drafts) - 1
    accepted, last, new = op.reference(*operands)
    plain, _, found = VerifyDrafts(op.drafts).reference(ids, sampled, state)
    np.testing.assert_array_equal(accepted, plain)
    np.testing.assert_array_equal(new, found)
    np.testing.assert_array_equal(last, operands[3] + accepted)


@given(case=packed_align_case())
def test_hidden_states_of_packed_rows_are_kept_where_they_were(
    case: tuple[AlignDrafts, list[Array], AlignDrafts],
) -> None:
    op, operands, plain = case
    found, wanted = op.reference(*operands), plain.reference(*operands[:-1])
    kept, _ = packed(wanted[4], operands[2], op.drafts)
    np.testing.assert_array_equal(found[4], np.append(kept, [-1] * (len(found[4]) - kept.size)))
    for i in (0, 1, 2, 3, 5, 6):
        np.testing.assert_array_equal(found[i], wanted[i])


@settings(max_examples=40)
@given(seed=st.integers(0, 2**32 - 1), kind=st.sampled_from(list(Verification)))
def test_tokens_do_not_depend_on_the_layout(seed: int, kind: Verification) -> None:
    """Random numbers belong to positions, and placeholders decide nothing."""
    random, drafts, places = np.random.default_rng(seed), 3, 6
    logits = random.standard_normal((places * (drafts + 1), 17)) * 3
    wants = [{"temperature": float(t), "threshold": 0.2, "ranks": 3} for t in (0.0, 0.7, 1.5)]
    rows = Rows.of(logits, wants, 7, drafts)
    rows.draw_drafts(seed % 1000)
    rows.options[:, Option.VERIFICATION] = kind
    rows.options[::2, Option.FREQUENCY] = 0.5
    rows.count_texts(seed % 999)
    state = states(random, places, drafts)
    rows.state[:, State.DRAFTED] = state[:, State.DRAFTED]
    rows.state[:, State.FINISHED] = state[:, State.FINISHED]
    each = rows_of_places(rows.state, drafts)
    kept = (np.arange(drafts + 1) < each[:, None]).reshape(-1)
    whole = dict(rows.inputs)
    few = {
        name: values[kept] if len(values) == kept.size else values for name, values in whole.items()
    }
    op = SampleTokens(drafts)
    found = op.reference(*few.values())[0]
    whole["state"] = rows.state.copy()
    whole["state"][:, State.DRAFTED] = each - 1
    np.testing.assert_array_equal(found, op.reference(*whole.values())[0][kept])
