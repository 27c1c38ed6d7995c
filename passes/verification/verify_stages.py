"""Verification of all stages of a compilation: the main model, its draft layers, closed steps."""

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.passes.expose_hidden import CHAININGS
from ascendfx.passes.run_on_tokens import Form, form_of
from ascendfx.passes.serving_steps import cache_names
from ascendfx.passes.verification.expected_drafts import DraftLayers
from ascendfx.passes.verification.exposed_hidden import hidden_states
from ascendfx.passes.verification.stage_name import StageName, parse_stage
from ascendfx.passes.verification.verify_closing import ClosingVerifier
from ascendfx.passes.verification.verify_pass import PassCheck, PassVerifier, Rewritten, checked


@dataclass
class StageVerifier:
    """Knows the truth of a captured model, and of its draft layers.

    Attributes:
        captured: The main model.
        drafts: Its draft layers.
        tensors: The checkpoint by key; read one layer at a time.
        tokens: Ids ``[texts, tokens]``.
        chaining: Which hidden state draft layers read, one of `CHAININGS`.
        checks: Of all passes so far.
        seconds: How long finding out took.

    Raises:
        GraphError: A tensor is missing, or the truth is not finite.
    """

    captured: Program
    drafts: Sequence[Program]
    tensors: Mapping[str, Array]
    tokens: Array
    chaining: str = CHAININGS[0]
    checks: list[PassCheck] = field(default_factory=list[PassCheck])
    seconds: float = 0.0

    def __post_init__(self) -> None:
        self._of_layers: dict[int | None, PassVerifier] = {}
        self._closing: dict[str, ClosingVerifier] = {}
        self._last: dict[str, Program] = {}
        self.seconds += self._of_layer(None).seconds

    @property
    def shape(self) -> tuple[int, int]:
        """Number of texts, and of tokens in each."""
        return self.tokens.shape[0], self.tokens.shape[1]

    def check(self, stage: str, run: Rewritten) -> PassCheck:
        """Compare the program after a pass; call it for each pass of a compilation in order."""
        at = parse_stage(stage)
        if at.layer is None and _closes(run):
            closing = self._closing_of(at.plan)
            check = checked(stage, run, lambda: closing.compare(run))
            check = replace(check, left_out=closing.left_out)
        else:
            start = time.perf_counter()
            known = self._of_layer(at.layer)
            if at.layer is None and _exposes(run, known):
                self._expect_hidden(known, run.before)
            check = known.check(stage, run)
            check = replace(check, seconds=time.perf_counter() - start)
        self._last[stage] = run.after
        self.seconds += check.seconds
        self.checks.append(check)
        return check

    def _of_layer(self, layer: int | None) -> PassVerifier:
        """Return what knows the truth of a draft layer, or of the main model."""
        if layer not in self._of_layers:
            program = self.captured if layer is None else self.drafts[layer]
            common = str(StageName(layer, ""))
            self._of_layers[layer] = PassVerifier(program, self.tensors, self.tokens, common)
        return self._of_layers[layer]

    def _closing_of(self, plan: str) -> ClosingVerifier:
        if plan not in self._closing:
            names = (str(StageName(i, plan)) for i in range(len(self.drafts)))
            layers = [self._last[name] for name in names]
            self._closing[plan] = ClosingVerifier(self.tensors, DraftLayers(layers, self.chaining))
        return self._closing[plan]

    def _expect_hidden(self, known: PassVerifier, form: Program) -> None:
        states = hidden_states(form, self.tensors, known.truth, self.chaining)
        known.expect_states((states,))


def _closes(run: Rewritten) -> bool:
    """Whether a pass closes a step, or changes a closed one."""
    return any(_form(program) is Form.STEP for program in (run.before, run.after))


def _exposes(run: Rewritten, known: PassVerifier) -> bool:
    """Whether the first program that returns hidden states comes out of a pass."""
    forms = [_form(program) for program in (run.before, run.after)]
    if known.truth.states or forms != [Form.SERVING, Form.SERVING]:
        return False
    return len(run.after.main.outputs) - len(cache_names(run.after)) > 2


def _form(program: Program) -> Form | None:
    try:
        return form_of(program)
    except GraphError:  # what a broken pass made is told by the check itself
        return None
