"""Operations that prepare the next step do what a loop over requests does."""

from collections.abc import Sequence

import numpy as np
import pytest
from hypothesis import given

from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import AdvanceRequests, ShiftTokens, VerifyDrafts
from ascendfx.ir.step_state import Finish, Option, State
from tests.ir.op_cases import GOOD, operand_types
from tests.ir.step_cases import ADVANCE, advance_case, shift_case, verify_case
from tests.ir.step_rates import rate_behind

Lists = list[list[int]]


def verified(
    k: int, ids: Sequence[int], sampled: Sequence[int], state: Lists
) -> tuple[list[int], ...]:
    accepted, last_rows, new = [], [], []
    for place, row in enumerate(state):
        first, count = place * (k + 1), 0
        while (
            count < min(row[State.DRAFTED], k) and ids[first + count + 1] == sampled[first + count]
        ):
            count += 1
        accepted.append(count)
        last_rows.append(first + count)
        new.append(sampled[first + count])
    return accepted, last_rows, new


@given(case=verify_case())
def test_drafts_are_accepted_up_to_the_first_difference(
    case: tuple[VerifyDrafts, list[Array]],
) -> None:
    op, operands = case
    found = op.reference(*operands)
    wanted = verified(op.drafts, *(each.tolist() for each in operands))
    assert [each.tolist() for each in found] == list(wanted)


def shifted(op: ShiftTokens, operands: list[list[int]], known: Lists) -> list[int]:
    ids, last_rows, row_request, new = operands
    result = []
    for row, q in enumerate(row_request):
        if row < last_rows[q]:
            result.append(ids[row + 1])
        elif row == last_rows[q]:
            given_token = known[q][op.depth] if known else -1
            result.append(given_token if given_token >= 0 else new[q])
        else:
            result.append(ids[row])
    return result


@given(case=shift_case())
def test_each_row_takes_the_token_behind_it(case: tuple[ShiftTokens, list[Array]]) -> None:
    op, operands = case
    (found,) = op.reference(*operands)
    four, known = [each.tolist() for each in operands[:4]], [each.tolist() for each in operands[4:]]
    assert found.tolist() == shifted(op, four, known[0] if known else [])


def emit(tokens: list[int], row: list[int], stops: list[int]) -> list[int]:
    """Emit tokens one after the other until one ends the request."""
    emitted = []
    for token in tokens:
        if row[State.GENERATED] >= row[State.LIMIT]:
            break
        if token < 0:
            row[State.FINISHED] = Finish.NOT_FINITE
            return emitted
        if token in stops and row[State.GENERATED] >= row[State.MINIMUM]:
            row[State.FINISHED] = Finish.STOP
            return emitted
        emitted.append(token)
        row[State.GENERATED] += 1
    if row[State.GENERATED] >= row[State.LIMIT]:
        row[State.FINISHED] = Finish.LIMIT
    return emitted


def slot(blocks: list[int], position: int, block: int) -> int:
    column, place = divmod(position, block)
    return blocks[column] * block + place if column < len(blocks) and blocks[column] >= 0 else -1


def penalised(options: list[float]) -> bool:
    repeats = options[Option.REPETITION] not in (0, 1)
    return repeats or any(options[each] for each in (Option.PRESENCE, Option.FREQUENCY))


def advanced(op: AdvanceRequests, operands: list[Array]) -> list[Array]:
    """Advance one place after the other."""
    ids, positions, slots, table, state, stops, accepted, new, *others = (
        each.tolist() for each in operands
    )
    emitted, step, counts, options, *drafts = others
    for b, row in enumerate(state):
        first, end = b * (op.drafts + 1), (b + 1) * (op.drafts + 1)
        tokens: list[int] = []
        if row[State.FINISHED] == Finish.RUNS:
            tokens = emit([*ids[first + 1 : first + 1 + accepted[b]], new[b]], row, stops[b])
            row[State.STEPS] += 1
            if drafts:
                tried = accepted[b] + (accepted[b] < row[State.DRAFTED])
                row[State.RATE] = rate_behind(row[State.RATE], accepted[b], tried)
        padding = [-1 if j <= row[State.DRAFTED] else -2 for j in range(op.drafts + 1)]
        emitted[step[0] % len(emitted)][b] = [len(tokens), *tokens, *padding[len(tokens) :]]
        for token in tokens if penalised(options[b]) else ():
            counts[row[State.PLACE]][token] += 2
        slots[first:end] = [-1] * (op.drafts + 1)
        if row[State.FINISHED] == Finish.RUNS:
            row[State.PROPOSED] += row[State.DRAFTED]
            row[State.ACCEPTED] += accepted[b]
            row[State.LENGTH] += accepted[b] + 1
            if drafts and row[State.ADAPTIVE] and step[1] >= 0:
                row[State.DRAFTS] = sum(step[1 + i] <= row[State.RATE] for i in range(op.drafts))
                if not row[State.DRAFTS] and row[State.STEPS] % 16 == 0:
                    row[State.DRAFTS] = 1
            row[State.DRAFTED] = min(row[State.DRAFTS], op.drafts) if drafts else 0
            ids[first:end] = [new[b], *([each[b] for each in drafts] or [0] * op.drafts)]
            positions[first:end] = range(row[State.LENGTH], row[State.LENGTH] + op.drafts + 1)
            slots[first:end] = [slot(table[b], p, op.block) for p in positions[first:end]]
    step[0] += 1
    return [np.array(each) for each in (ids, positions, slots, state, emitted, step, counts)]


@given(case=advance_case())
def test_every_place_advances_as_in_a_loop(case: tuple[AdvanceRequests, list[Array]]) -> None:
    op, operands = case
    before = [each.copy() for each in operands]
    for found, wanted in zip(op.reference(*operands), advanced(op, before), strict=True):
        np.testing.assert_array_equal(found, wanted)
    for now, then in zip(operands, before, strict=True):
        np.testing.assert_array_equal(now, then)


@pytest.mark.parametrize(("generated", "limit"), [(0, 3), (0, 2), (0, 1), (1, 3), (3, 3)])
def test_a_limit_cuts_accepted_drafts(generated: int, limit: int) -> None:
    operands = [each.copy() for each in ADVANCE]
    operands[4][0, State.GENERATED], operands[4][0, State.LIMIT] = generated, limit
    *_, state, emitted, _, _ = AdvanceRequests(2, 4).reference(*operands)
    assert (
        emitted[0, 0].tolist()[: 1 + limit - generated]
        == [limit - generated, 7, 8, 9][: 1 + limit - generated]
    )
    assert state[0, State.FINISHED] == Finish.LIMIT


@pytest.mark.parametrize(("op", "text"), [case for case in GOOD if case[0].in_place])
def test_what_is_overwritten_keeps_its_type(op: Op, text: str) -> None:
    operands = operand_types(text)
    results = op.infer(*operands)
    assert set(op.in_place) <= set(range(len(results)))
    assert [results[i] for i in op.in_place] == [operands[i] for i in op.in_place.values()]


@pytest.mark.parametrize(
    ("option", "value", "found"),
    [
        (Option.REPETITION, 1.0, [0, 0]),
        (Option.REPETITION, 1.5, [4, 2]),
        (Option.PRESENCE, -0.5, [4, 2]),
        (Option.FREQUENCY, 0.25, [4, 2]),
        (Option.TEMPERATURE, 1.0, [0, 0]),
    ],
)
def test_only_requests_with_penalties_count_what_they_emit(
    option: Option, value: float, found: list[int]
) -> None:
    """Tokens 7, 9 and 9."""
    operands = [each.copy() for each in ADVANCE]
    operands[0][2] = 9
    operands[4][0, State.LIMIT] = 99
    operands[11][0, option] = value
    counts = AdvanceRequests(2, 4).reference(*operands)[6]
    assert counts[0, [9, 7]].tolist() == found
    assert counts.sum() == sum(found)
