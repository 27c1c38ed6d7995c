"""Draft layers that may run at shifted positions, and those that may not."""

import re
from collections.abc import Callable
from functools import partial

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import nn

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.location import UNKNOWN
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.draft_licence import draft_licence
from ascendfx.passes.rotary_proof import prove_shift
from ascendfx.passes.rounding_bound import rounding_bound
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.shift_positions import shift_positions
from tests.capture.tiny_models import yarn
from tests.passes.capture_drafts import CapturedDraft, captured_draft, random_inputs
from tests.passes.draft_modules import SmallDraft, deepseek_draft
from tests.passes.small_drafts import LICENSED, REFUSED

Make = Callable[[], nn.Module]
DEEPSEEK: tuple[Make, ...] = (
    deepseek_draft,
    partial(deepseek_draft, first_k_dense_replace=0),
    partial(deepseek_draft, rope_interleave=False),
    partial(deepseek_draft, q_lora_rank=None, rope_parameters=yarn(1.0, 0.5)),
)


@pytest.mark.parametrize("make", [*DEEPSEEK, *LICENSED])
def test_layers_that_see_differences_of_positions_are_licensed(make: Make) -> None:
    licence = draft_licence(captured_draft(make).program)
    assert licence.attentions == 1
    assert licence.rotations in {0, 2}
    assert bool(licence.proved) == bool(licence.rotations)


def test_the_identity_is_proved_once_per_kind_of_rotation() -> None:
    """The proof takes most of the time of a licence."""
    program = captured_draft(deepseek_draft).program
    draft_licence(program)
    proofs = prove_shift.cache_info().misses
    draft_licence(program)
    assert prove_shift.cache_info().misses == proofs


@pytest.mark.parametrize("make", DEEPSEEK)
def test_serving_forms_are_licensed(make: Make) -> None:
    raised = ShareCommon().run(captured_draft(make).program).program
    serving = DeriveIncrementalForm().run(raised).program
    licence = draft_licence(serving)
    assert (licence.attentions, licence.rotations) == (1, 2)
    assert len(licence.angles) == len(draft_licence(raised).angles)


@pytest.mark.parametrize("kind", REFUSED)
def test_layers_that_see_positions_are_refused(kind: type[SmallDraft]) -> None:
    code, text = REFUSED[kind]
    with pytest.raises(GraphError) as caught:
        draft_licence(captured_draft(kind).program)
    assert (caught.value.code, text in caught.value.reason) == (code, True), str(caught.value)
    assert caught.value.location != UNKNOWN
    assert caught.value.excerpt
    assert caught.value.hint


def _difference(draft: CapturedDraft, shift: int, seed: int) -> tuple[float, bool]:
    """Return the largest difference at shifted positions, and whether rounding explains all."""
    inputs = random_inputs(seed, batch=2, tokens=6)
    tensors = {**draft.tensors, **inputs}
    shifted = shift_positions(draft.program, shift)
    results, bounds = (
        [run(program, tensors) for program in (draft.program, shifted)]
        for run in (interpret, rounding_bound)
    )
    worst, explained = 0.0, True
    for here, there, *errors in zip(*results, *bounds, strict=True):
        difference = np.abs(here - there)
        worst = max(worst, float(difference.max()))
        explained = explained and bool(np.all(difference <= errors[0] + errors[1]))
    return worst, explained


@given(
    make=st.sampled_from([*DEEPSEEK, *LICENSED]),
    shift=st.one_of(st.integers(1, 8), st.integers(1, 100_000)),
    seed=st.integers(0, 2**32 - 1),
)
@settings(max_examples=30, deadline=None)
def test_licensed_layers_compute_the_same_at_shifted_positions(
    make: Make, shift: int, seed: int
) -> None:
    worst, explained = _difference(captured_draft(make), shift, seed)
    assert explained
    assert worst < 1e-6


_CHANGED_BY_A_SHIFT = [
    kind
    for kind in REFUSED
    if kind.__name__
    not in {
        "LinearBias",  # sees differences of positions only
        "LearnedPositions",  # the shifted program takes rows of the table that are not there
        "StoredTables",
        "SlicedPositions",  # its positions are no counts
        "RoundedPositions",  # float64 does not round them
        "SeesAll",  # what they do with tokens is wrong for a fused layer, not with positions
        "PreviousToken",
        "CountsTokens",
        "OfAllTokens",
        "HeadsMixed",
        "LanesScaled",  # with other weights than one
    }
]


@pytest.mark.parametrize("kind", _CHANGED_BY_A_SHIFT)
def test_refused_layers_do_change(kind: type[SmallDraft]) -> None:
    worst, explained = _difference(captured_draft(kind), 3, seed=1)
    assert not explained
    assert worst > 1e-6


def test_other_inputs_are_no_draft_form() -> None:
    program = captured_draft(SmallDraft).program
    text = print_program(program).replace('input "hidden"', 'input "logit_positions"')
    with pytest.raises(GraphError, match="no-draft-form"):
        draft_licence(parse_program(text))


def test_other_masks_are_not_causal() -> None:
    text = print_program(captured_draft(SmallDraft).program)
    assert ", causal=true" in text
    with pytest.raises(GraphError, match="not-causal"):
        draft_licence(parse_program(text.replace(", causal=true", "")))


def test_rows_of_a_tree_do_not_see_all_before_them() -> None:
    raised = ShareCommon().run(captured_draft(deepseek_draft).program).program
    text = print_program(DeriveIncrementalForm().run(raised).program)
    tree, changed = re.subn(
        r"(= ragged_attention .*)(%\d+) \{(.*)\} :", r"\1\2, \2 {\3, tree=true} :", text
    )
    assert changed == 1
    with pytest.raises(GraphError, match="draft-cache") as caught:
        draft_licence(parse_program(tree))
    assert caught.value.reason.startswith("the attention does not see each request's tokens")
