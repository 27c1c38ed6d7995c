"""What a closed step does is compared with the form before it and with draft programs."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields, replace
from functools import cache
from typing import Any

import numpy as np
import pytest

from ascendfx.ir.graph import Graph, Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import AdvanceRequests, Input, advance_requests
from ascendfx.ir.program import Program
from ascendfx.ir.size import named_size
from ascendfx.ir.step_state import State
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.expose_hidden import CHAININGS, ExposeHidden
from ascendfx.passes.graph_pass import Fidelity, ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.verification.expected_drafts import DraftLayers
from ascendfx.passes.verification.verify_closing import ClosingVerifier
from ascendfx.passes.verification.verify_pass import PassCheck, Rewritten, checked
from ascendfx.passes.verification.verify_stages import StageVerifier
from ascendfx.runtime.presets import DECODE, PREFILL, TO_SERVING, closing_passes
from ascendfx.runtime.start_verifier import token_ids
from tests.dumps.planted import Bug, mutated
from tests.passes.captured_models import captured
from tests.passes.fused_steps import serving_forms
from tests.passes.step_edits import edited, one_more

chosen_drafts = advance_requests._chosen
_FRESH = TensorType(DType.I32, (named_size("news"),))
_PLANS: Mapping[str, tuple[ProgramPass, ...]] = {"decode": DECODE, "prefill": PREFILL}


@cache
def forms(plan: str) -> tuple[Program, Program]:
    """Return the main model and the draft layer behind the passes of a plan."""
    model, draft = (run_pipeline(each, _PLANS[plan])[0] for each in serving_forms())
    return model, draft


@cache
def weights() -> Mapping[str, Array]:
    """Return random weights of both."""
    model, draft = serving_forms()
    return {**random_weights(draft, 1), **random_weights(model, 0)}


def checks(
    plan: str,
    drafts: int = 0,
    branches: tuple[int, ...] = (),
    *,
    bug: Bug | None = None,
    tensors: Mapping[str, Array] | None = None,
) -> list[PassCheck]:
    """Close the step of a plan, and compare the step after each pass, up to a broken one."""
    program, draft = forms(plan)
    verifier = ClosingVerifier(tensors or weights(), DraftLayers((draft,), "post-norm"))
    found: list[PassCheck] = []
    for sound in closing_passes(plan, (draft,) * drafts, branches=branches):
        each = _planted(sound, bug) if bug else sound
        after = each.run(program).program
        run = Rewritten(each.name, each.fidelity, program, after)
        check = checked(plan, run, lambda run=run: verifier.compare(run))
        found.append(replace(check, left_out=verifier.left_out))
        program = after
        if found[-1].broken:
            break
    return found


def _planted(sound: ProgramPass, bug: Bug) -> Any:
    """Return the pass with a mistake, if it is the one."""
    if type(sound).__name__ != bug.name:
        return sound
    made = mutated(bug)
    made["check_shifted_convention"] = lambda _: None  # it would refuse some of them before
    return made[bug.name](**{each.name: getattr(sound, each.name) for each in fields(sound)})


@pytest.mark.parametrize(
    ("plan", "drafts", "branches"),
    [
        ("decode", 0, ()),
        ("decode", 1, ()),
        ("decode", 3, ()),
        ("decode", 2, (2, 2)),
        ("prefill", 1, ()),
        ("prefill", 2, ()),
    ],
)
def test_every_closing_pass_keeps_its_fidelity(
    plan: str, drafts: int, branches: tuple[int, ...]
) -> None:
    found = checks(plan, drafts, branches)
    assert not [f"{each.name}: {each.broken}" for each in found if each.broken]
    assert len(found) == 5 + bool(drafts)
    assert all(0 <= each.error.max <= each.error.bound < 1e-9 for each in found)


@dataclass(frozen=True)
class Closing:
    """A mistake in a pass that closes a step, and what the report says of it."""

    bug: Bug
    text: str
    plan: str = "decode"
    drafts: int = 2
    branches: tuple[int, ...] = ()


MISTAKES = {
    "tokens of last rows": Closing(
        Bug("close_step", "accepted, _, new = ", "accepted, new, _ = ", "CloseStep"),
        "state.LENGTH",
    ),
    "entries stay where they were": Closing(
        Bug(
            "close_step",
            "accepted, new, path)), moved",
            "accepted, new, path)), caches",
            "CloseStep",
        ),
        "cache.0",
        branches=(2, 2),
    ),
    "drafts see each other": Closing(
        Bug(
            "close_step",
            "program = see_ancestors(program, ANCESTORS, controls[ANCESTORS])",
            "program = program",
            "CloseStep",
        ),
        "logits",
        branches=(2, 2),
    ),
    "the other hidden state": Closing(
        Bug(
            "fuse_mtp",
            'if chaining == "post-norm" else',
            'if chaining != "post-norm" else',
            "FuseMtp",
        ),
        "cache.draft.1",
    ),
    "hidden states of other rows": Closing(
        Bug("fuse_mtp", "GatherRows(), flat, found_at", "GatherRows(), flat, keep_at", "FuseMtp"),
        "cache.draft.0",
    ),
    "what the layer before reads": Closing(
        Bug("fuse_mtp", '"token_ids": ids, "hidden"', '"token_ids": rows.ids, "hidden"', "FuseMtp"),
        "cache.draft.1",
    ),
    "prompts are not known": Closing(
        Bug(
            "fuse_mtp",
            "shift = ShiftTokens(depth, known",
            "shift = ShiftTokens(0, known",
            "FuseMtp",
        ),
        "cache.draft.1",
        plan="prefill",
    ),
    "rows in the wrong order": Closing(
        Bug(
            "gather_earlier",
            "found = self._builder.add(GatherRows(), self._all[value], self._all[ids])",
            "found = self._builder.add(GatherRows(), self._all[value], self._builder.add("
            "Subtract(), self._all[ids], self._all[ids]))",
            "GatherEarlier",
        ),
        "cache.draft.1",
    ),
    "packed rows at the place of their request": Closing(
        Bug(
            "drop_placeholders",
            "dict(zip(_PACKED, made, strict=False))",
            'dict(zip(_PACKED, made, strict=False)) | {"positions": made[3]}',
            "DropPlaceholders",
        ),
        "logits",
    ),
    "packed rows verified as if all were there": Closing(
        Bug(
            "drop_placeholders",
            "case ops.VerifyDrafts():",
            "case ops.VerifyTree():",
            "DropPlaceholders",
        ),
        "cache.draft.0",
    ),
}


@pytest.mark.parametrize("mistake", MISTAKES.values(), ids=MISTAKES.keys())
def test_a_mistake_is_found_where_it_is_made(mistake: Closing) -> None:
    last = checks(mistake.plan, mistake.drafts, mistake.branches, bug=mistake.bug)[-1]
    assert mistake.text in last.broken
    assert last.place is not None


@pytest.mark.parametrize(
    ("operand", "text"),
    [(4, "`state.LENGTH` is missing"), (6, "`state.LENGTH` holds"), (9, "`state.DRAFTED` holds")],
)
def test_a_pass_that_nobody_knows_is_compared_with_the_program_before(
    operand: int, text: str
) -> None:
    program, draft = forms("decode")
    verifier = ClosingVerifier(weights(), DraftLayers((draft,), "post-norm"))
    for each in closing_passes("decode", (draft,)):
        after = each.run(program).program
        verifier.compare(Rewritten(each.name, each.fidelity, program, after))
        program = after
    main = program.main
    node = Node(Input("fresh", _FRESH), (), (_FRESH,))
    fresh = Graph(main.name, (*main.nodes, node), main.outputs)
    same = replace(program, graphs=(fresh, *program.graphs[1:]))
    assert not verifier.compare(Rewritten("sound", Fidelity.BITWISE, program, same))[1]
    wrong = edited(program, AdvanceRequests, 0, one_more(operand))
    assert text in verifier.compare(Rewritten("wrong", Fidelity.REAL, same, wrong))[1]


@pytest.mark.parametrize("chaining", CHAININGS)
def test_the_hidden_states_for_draft_layers_are_those_that_logits_are_made_of(
    chaining: str,
) -> None:
    program = captured("v3_halfrope")
    tensors, tokens = random_weights(program, 0), token_ids(None, 90, length=6)
    form = run_pipeline(program, TO_SERVING)[0]
    wrong = mutated(Bug("expose_hidden", 'chaining == "post-norm"', "chaining != CHAININGS[0]", ""))
    for kind, broken in ((ExposeHidden, False), (wrong["ExposeHidden"], True)):
        verifier = StageVerifier(program, (), tensors, tokens, chaining)
        after = kind(chaining).run(form).program
        check = verifier.check("serving", Rewritten("x", Fidelity.BITWISE, form, after))
        assert ("result 2 of @main moved by" in check.broken) == broken


def test_nothing_is_said_of_tokens_between_which_nothing_decides() -> None:
    forms("decode")
    even = {
        key: np.zeros_like(each) if "lm_head" in key else each for key, each in weights().items()
    }
    found = checks("decode", 2, tensors=even)
    assert not [each.broken for each in found if each.broken]
    assert [each.left_out for each in found] == [5, 6, 6, 6, 6, 6]


def _always_all(state: Array, step: Array, depths: Array) -> Array:
    return np.full(len(state), len(depths) - 1)


def _never_tried(state: Array, step: Array, depths: Array) -> Array:
    """Return what pays, and nothing in the steps in which one draft is tried all the same."""
    pays = (step[1 : depths.max() + 1] <= state[:, State.RATE, None]).sum(axis=1)
    return (depths <= pays[:, None]).sum(axis=1) - 1


def _dearer(state: Array, step: Array, depths: Array) -> Array:
    return chosen_drafts(state, step + 1, depths)


@pytest.mark.parametrize("wrong", [_always_all, _never_tried, _dearer])
@pytest.mark.parametrize("branches", [(), (2, 2)])
def test_drawn_steps_choose_their_drafts(
    wrong: Callable[..., Array],
    branches: tuple[int, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(advance_requests, "_chosen", wrong)
    assert "state.DRAFT" in checks("decode", 2, branches)[-1].broken
