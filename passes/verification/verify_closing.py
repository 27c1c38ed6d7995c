"""After each pass that closes a step: does the step still do what the form before it told.

A closed step chooses tokens, so that it cannot be led along a text. It is run on a drawn step
instead, and what it returns is compared with what the form says that it was closed from
(`expected_step.py`), and the draft programs on their own (`expected_drafts.py`).
"""

import math
from collections.abc import Mapping
from dataclasses import dataclass, replace

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.run_on_tokens import Form, form_of
from ascendfx.passes.same_bits import same_in_format
from ascendfx.passes.verification.compare_step import LOGITS, Difference, difference
from ascendfx.passes.verification.draw_decode import draw_decode, parents_of
from ascendfx.passes.verification.draw_prefill import draw_prefill, with_drafts
from ascendfx.passes.verification.drawn_step import DrawnStep, with_small_blocks
from ascendfx.passes.verification.expected_drafts import DraftLayers, expected_fused
from ascendfx.passes.verification.expected_step import Expected, expected_decode, expected_prefill
from ascendfx.passes.verification.first_difference import Place
from ascendfx.passes.verification.run_with_noise import Noisy, NoisyRunner, tolerance, undisturbed
from ascendfx.passes.verification.step_parts import (
    HIDDEN,
    Parts,
    parts_of,
    result_names,
    result_of,
)
from ascendfx.passes.verification.verify_pass import PassError, Rewritten, Verdict, worst_place


@dataclass
class ClosingVerifier:
    """Knows what the step of a plan must do, and compares the step after each pass with that.

    Attributes:
        tensors: The checkpoint by key.
        layers: The draft layers of the plan.
    """

    tensors: Mapping[str, Array]
    layers: DraftLayers

    def __post_init__(self) -> None:
        self._step: DrawnStep | None = None
        self._expected: Expected | None = None
        self._ran: list[tuple[Program, tuple[Noisy, ...]]] = []

    @property
    def left_out(self) -> int:
        """Requests that are not compared, because two of their logits are nearly equal."""
        return self._expected.unclear if self._expected else 0

    def compare(self, run: Rewritten) -> Verdict:
        """Return how far the step after a pass is from what it must do, and what is wrong."""
        fused = self._expect(run)
        expected = self._expected
        assert expected is not None  # noqa: S101  # a step is closed before it is changed
        own, names = self._parts(run.after), result_names(run.after)
        compared = [_compared(each, expected.parts, own, run.after) for each in expected.parts]
        error = _figures([each.found for each in compared if each.is_real], run.after)
        if form_of(run.before) is Form.STEP:
            before = self._parts(run.before)
            if fused:
                before = {key: each for key, each in before.items() if _is_of_main(key, own)}
            exact = run.fidelity is Fidelity.BITWISE
            keys = [key for key in before if exact or key not in expected.parts]
            compared += [_compared(key, before, own, run.after, exact=exact) for key in keys]
        compared.sort(key=lambda each: not each.is_real)  # tokens follow from numbers
        broken = next((each for each in compared if each.broken), None)
        self._ran = self._ran[-1:]
        if broken is None or run.fidelity is Fidelity.LOSSY:
            return error, "", None, None
        main = run.after.main
        place = Place(main, main.outputs[result_of(broken.key, names)].node)
        return replace(error, worst=worst_place(place)), broken.broken, place, None

    def _expect(self, run: Rewritten) -> bool:
        """Learn what the step after a pass must do; return whether draft layers are new in it."""
        if form_of(run.before) is not Form.STEP:
            if parents_of(run.after):
                self._step = draw_decode(run.before, run.after, self.tensors)
                self._expected = expected_decode(self._step, run.before, self.tensors)
            else:
                self._step = draw_prefill(run.after)
                self._expected = expected_prefill(self._step, run.before, self.tensors)
            return False
        names = result_names(run.after)
        if HIDDEN not in result_names(run.before) or HIDDEN in names:
            return False
        step, closed = self._step, self._expected
        assert step is not None and closed is not None  # noqa: S101, PT018
        if not step.parents:
            step = with_drafts(step, sum(name.startswith("draft.") for name in names))
        self._step = step
        self._expected = expected_fused(step, run.after, closed, self.layers, self.tensors)
        return True

    def _parts(self, program: Program) -> Parts:
        step, expected = self._step, self._expected
        assert step is not None and expected is not None  # noqa: S101, PT018
        outputs = next((made for each, made in self._ran if each is program), None)
        if outputs is None:
            small = with_small_blocks(program)
            inputs = {name: undisturbed(each) for name, each in step.inputs(small).items()}
            runner = NoisyRunner(small, self.tensors, step.all_sizes(small))
            outputs = runner.entry(inputs).outputs
            self._ran.append((program, outputs))
        return parts_of(step, program, outputs, expected.made)


@dataclass(frozen=True)
class _Compared:
    key: str
    found: Difference
    is_real: bool
    broken: str = ""


def _compared(
    key: str, expected: Parts, own: Parts, program: Program, *, exact: bool = False
) -> _Compared:
    """Compare one part; exactly: by the bits that the format of the result has."""
    place = result_of(key, result_names(program))
    where = (0, LOGITS, place, program.name)
    true, real = expected[key][0], expected[key][0].dtype.kind == "f"
    if key not in own:
        lost = Difference(*where, np.inf, np.inf, 1, 0.0)
        return _Compared(key, lost, real, f"`{key}` is missing")
    value = own[key][0]
    bound = 0.0 if exact else tolerance(own[key]) + tolerance(expected[key])
    found = difference(where, value, true, bound)
    dtype = program.main.output_types[place].dtype
    if real and exact:
        same = same_in_format(dtype, value, true)
        return _Compared(key, found, real, "" if same else f"bits of `{key}` differ")
    if not found.broken:
        return _Compared(key, found, real)
    moved = f"`{key}` moved by {found.max:.3g}; rounding explains {found.bound:.3g}"
    return _Compared(key, found, real, moved if real else _other(key, value, true))


def _other(key: str, own: Array, true: Array) -> str:
    if own.shape != true.shape:
        return f"`{key}` has {own.size} numbers that count, {true.size} are expected"
    at = np.flatnonzero(own.reshape(-1) != true.reshape(-1))[0]
    return f"`{key}` holds {own.reshape(-1)[at]} where {true.reshape(-1)[at]} is expected"


def _is_of_main(key: str, own: Parts) -> bool:
    """Whether draft layers leave a part alone: they write drafts into the next step."""
    return key in own and key not in ("token_ids", "state.DRAFTED", "state.DRAFTS", "state.RATE")


def _figures(found: list[Difference], program: Program) -> PassError:
    worst = max(found, key=lambda each: (each.excess, each.bound))
    squares, count = (sum(getattr(each, name) for each in found) for name in ("squares", "count"))
    place = Place(program.main, program.main.outputs[worst.result].node)
    return PassError(
        max(each.max for each in found),
        math.sqrt(squares / max(count, 1)),
        worst.bound,
        worst_place(place),
    )
