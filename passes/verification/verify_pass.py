"""After each pass: is the program still what was captured, up to the fidelity of the pass."""

import math
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.pipeline import PassRun
from ascendfx.passes.verification.compare_step import Difference, compare_with_truth, same_results
from ascendfx.passes.verification.finite_truth import require_finite
from ascendfx.passes.verification.first_difference import Place, find_place
from ascendfx.passes.verification.follow_truth import Step, Truth, find_truth, follow_truth
from ascendfx.passes.verification.layer_errors import LayerError, layer_errors
from ascendfx.passes.verification.new_narrowing import new_narrowing
from ascendfx.passes.verification.out_of_range import out_of_range
from ascendfx.passes.verification.reference import reference_of
from ascendfx.passes.verification.run_with_noise import Noisy
from ascendfx.passes.verification.stage_name import SERVING


@dataclass(frozen=True, slots=True)
class WorstPlace:
    """Where a program is farthest from the truth, measured by what rounding explains.

    Attributes:
        graph: Name of the function.
        node: Position of the node.
        op: Its mnemonic.
        location: The line of the model.
    """

    graph: str
    node: int
    op: str
    location: str


@dataclass(frozen=True, slots=True)
class PassError:
    """How far a program is from the float64 truth.

    Attributes:
        max: Largest absolute difference of any compared value.
        rms: Root of the mean square of the differences.
        bound: What rounding explains at the worst place.
        worst: The place.
        layers: The same for each layer, each started from the truth.
    """

    max: float
    rms: float
    bound: float
    worst: WorstPlace
    layers: tuple[LayerError, ...] = ()


@dataclass(frozen=True, slots=True)
class PassCheck:
    """What verification says of one pass.

    Attributes:
        stage: Whose pass it is.
        name: The pass.
        fidelity: What it promises.
        error: How far the program after it is from the truth.
        seconds: How long finding out took.
        broken: What breaks the fidelity; empty if nothing does.
        place: The first operation that differs, if something does.
        found: The first tensor that differs, if one does by more than rounding.
        left_out: Requests of a drawn step that were not compared, because two of their logits are
            nearly equal.
    """

    stage: str
    name: str
    fidelity: Fidelity
    error: PassError
    seconds: float
    broken: str = ""
    place: Place | None = None
    found: Difference | None = None
    left_out: int = 0


@dataclass(frozen=True, slots=True)
class Rewritten:
    """A pass and the programs around it, however they became known.

    Attributes:
        name: The pass.
        fidelity: What it promises.
        before: The program that it was given.
        after: The program that it made; the same object if it changed nothing.
    """

    name: str
    fidelity: Fidelity
    before: Program
    after: Program


def rewritten(run: PassRun) -> Rewritten:
    """Return what a run of a pass did."""
    return Rewritten(run.name, run.rewrite.fidelity, run.before, run.program)


Verdict = tuple[PassError, str, Place | None, Difference | None]
"""How far a program is off, what breaks the fidelity of the pass, where, and the first tensor."""


@dataclass
class PassVerifier:
    """Knows the truth of one captured program and compares every later program with it.

    Attributes:
        captured: The program that is true.
        tensors: The checkpoint by key; read one layer at a time.
        tokens: Ids ``[texts, tokens]``; what a draft layer reads beside them is drawn.
        common: The stage that others go on from.

    Raises:
        GraphError: A tensor is missing, or the truth is not finite.
    """

    captured: Program
    tensors: Mapping[str, Array]
    tokens: Array
    common: str = SERVING

    def __post_init__(self) -> None:
        start = time.perf_counter()
        self.truth: Truth = find_truth(self.captured, self.tensors, self.tokens)
        require_finite(self.captured, self.truth)
        self._references: dict[str, Truth] = {}
        self._last: tuple[Program, list[Step], PassError | None] | None = None
        self.seconds = time.perf_counter() - start

    @property
    def shape(self) -> tuple[int, int]:
        """Number of texts, and of tokens in each."""
        return self.tokens.shape[0], self.tokens.shape[1]

    def expect_states(self, states: tuple[Noisy, ...]) -> None:
        """Compare what programs return beside the logits with these, ``[texts, tokens, ...]``."""
        self.truth = replace(self.truth, states=states)
        known = self._references.items()
        self._references = {stage: replace(each, states=states) for stage, each in known}

    def check(self, stage: str, run: Rewritten) -> PassCheck:
        """Compare the program after a pass; call it for each pass of a pipeline in order."""
        check = checked(stage, run, lambda: self._compare(stage, run))
        self.seconds += check.seconds
        return check

    def _compare(self, stage: str, run: Rewritten) -> Verdict:
        before, known = self._steps_before(run)
        if run.after is run.before and known is not None:
            return known, "", None, None
        exact = run.fidelity is Fidelity.BITWISE
        steps = self._run(run.after, noise=not exact)
        same = _all_same(before, steps) if exact else None
        if same and known is not None:
            error, worst, place = known, None, None
        else:
            steps = self._run(run.after, noise=True) if exact else steps
            differences = self._differences(steps, self.truth)
            worst = max(differences, key=lambda each: each.excess)
            place = _output_place(steps, worst)
            error = _figures(steps, differences, place)
        self._last = (run.after, steps, error)
        if run.fidelity is Fidelity.LOSSY:
            self._references[stage] = reference_of(steps, self._reference(stage))
            return error, "", None, None
        if not same:
            first = next(filter(_is_broken, self._differences(steps, self._reference(stage))), None)
            if first is not None:
                place = find_place(
                    _step_before(before, first), steps[first.step], first, self.truth
                )
                return replace(error, worst=worst_place(place)), _moved(first), place, first
        if stored := self._stored(before, steps, exact=exact):
            return error, *stored, None
        if same is False:
            return error, "it is declared bitwise, and bits differ", place, worst
        return error, "", None, None

    def _reference(self, stage: str) -> Truth:
        """Return what passes are held to: the truth, or what the last lossy pass made of it."""
        return self._references.get(stage, self._references.get(self.common, self.truth))

    def _stored(
        self, before: list[Step], steps: list[Step], *, exact: bool
    ) -> tuple[str, Place] | None:
        """Say what formats do to the program that float64 does not show."""
        if not before:
            return None
        lost = out_of_range(before[0], steps[0])
        if lost:
            told = (
                f"a value {lost.what} {lost.stored.value}: its largest element is {lost.value:.3g}"
            )
            return told, lost.place
        found = new_narrowing(before[0], steps[0], self.truth)
        if found:
            held = (
                f"; before it was {found.held.value}" if found.held else ", as no value was before"
            )
            return f"a value is rounded to {found.stored.value}{held}", found.place
        if exact and (lost := new_narrowing(steps[0], before[0], self.truth)) and lost.held:
            reason = f"a value is no longer rounded to {lost.stored.value}: bits differ"
            return reason, lost.place
        return None

    def _steps_before(self, run: Rewritten) -> tuple[list[Step], PassError | None]:
        if self._last is None or self._last[0] is not run.before:
            steps = self._run(run.before, noise=True)
            differences = self._differences(steps, self.truth)
            worst = max(differences, key=lambda each: each.excess)
            self._last = (
                run.before,
                steps,
                _figures(steps, differences, _output_place(steps, worst)),
            )
        return self._last[1], self._last[2]

    def _run(self, program: Program, *, noise: bool) -> list[Step]:
        return list(follow_truth(program, self.tensors, self.truth, noise=noise))

    def _differences(self, steps: list[Step], truth: Truth) -> list[Difference]:
        return [
            each
            for number, step in enumerate(steps)
            for each in compare_with_truth(number, step, truth)
        ]


def checked(stage: str, run: Rewritten, compare: Callable[[], Verdict]) -> PassCheck:
    """Return what a comparison says; a program that is invalid or cannot be run breaks any."""
    start = time.perf_counter()
    error, place, found = _no_error_known(run.after), None, None
    broken = _why_invalid(run.after)
    if not broken:
        try:
            error, broken, place, found = compare()
        except (IndexError, ValueError, KeyError) as problem:
            broken = f"the program after it cannot be run: {problem}"
    seconds = time.perf_counter() - start
    return PassCheck(stage, run.name, run.fidelity, error, seconds, broken, place, found)


def texts_line(texts: int, length: int) -> str:
    """Return what was run on; a mistake that needs a longer text is not seen."""
    return f"on {texts} text{'s' * (texts != 1)} of {length} token{'s' * (length != 1)}"


def fidelity_error(
    check: PassCheck, checks: Sequence[PassCheck], shape: tuple[int, int], dump: str = ""
) -> GraphError:
    """Return the error that stops a compilation: which pass, where, and how it went until then.

    Args:
        check: Of the pass that breaks its fidelity.
        checks: Of all passes up to it.
        shape: Texts and tokens of each that programs were run on.
        dump: The folder of the dump; empty if none is written.
    """
    place = check.place
    again = "" if dump else 'compile again with dump_dir="DUMP"; '
    return GraphError(
        code="fidelity-broken",
        reason=f"pass `{check.name}` of stage {check.stage} is declared {check.fidelity.value}, "
        f"but {check.broken}",
        location=place.node.location if place else UNKNOWN,
        excerpt=f"@{place.graph.name}: {place.text}" if place else "",
        notes=(
            f"error against the float64 truth after each pass, {texts_line(*shape)}:",
            *table_lines(checks),
        ),
        hint=f"{again}`ascendfx reduce {dump or 'DUMP'} -o case.json` makes a small case of it; if "
        "the pass is yours, run that in the folder of its module with --allow-code",
    )


def table_lines(checks: Sequence[PassCheck]) -> tuple[str, ...]:
    """Return the table of errors, a line per pass."""
    width = max((len(each.name) for each in checks), default=4)
    first = max((8, *(len(each.stage) for each in checks)))
    return (
        f"{'stage':{first}} {'pass':{width}} {'fidelity':8} "
        f"{'max':>9} {'rms':>9} {'rounding':>9} seconds",
        *(
            f"{each.stage:{first}} {each.name:{width}} {each.fidelity.value:8} {_figures_of(each)}"
            + ("  broken" if each.broken else "")
            + (f"  {each.left_out} requests left out" if each.left_out else "")
            for each in checks
        ),
    )


def _figures_of(check: PassCheck) -> str:
    error = check.error
    return f"{error.max:9.2e} {error.rms:9.2e} {error.bound:9.2e} {check.seconds:7.2f}"


def _why_invalid(program: Program) -> str:
    try:
        verify_program(program)
    except GraphError as problem:
        return f"its program is invalid: {problem.reason}"
    return ""


def _no_error_known(program: Program) -> PassError:
    return PassError(math.inf, math.inf, 0.0, WorstPlace(program.name, 0, "", ""))


def _figures(steps: list[Step], differences: list[Difference], place: Place) -> PassError:
    worst = max(differences, key=lambda each: each.excess)
    count = sum(each.count for each in differences)
    rms = math.sqrt(sum(each.squares for each in differences) / max(count, 1))
    where = worst_place(place)
    layers = layer_errors(steps[0].runner.program, differences)
    return PassError(max(each.max for each in differences), rms, worst.bound, where, layers)


def worst_place(place: Place) -> WorstPlace:
    """Return a place as plain data."""
    node = place.node
    return WorstPlace(place.graph.name, place.position, node.op.mnemonic, str(node.location))


def _is_broken(found: Difference) -> bool:
    return found.broken


def _moved(first: Difference) -> str:
    where = f"@{first.graph}" if first.call < 0 else f"@{first.graph}, call {first.call}"
    return (
        f"result {first.result} of {where} moved by {first.max:.3g}; "
        f"rounding explains {first.bound:.3g}"
    )


def _output_place(steps: list[Step], found: Difference) -> Place:
    graph = steps[found.step].runner.program.by_name[found.graph]
    return Place(graph, graph.outputs[found.result].node)


def _step_before(before: list[Step], found: Difference) -> Step | None:
    """Return the step that has the values of ``found``: a captured form has one for all."""
    if not before:
        return None
    return before[found.step] if found.step < len(before) else before[0]


def _all_same(before: list[Step], after: list[Step]) -> bool | None:
    if len(before) != len(after):
        return None
    found = [same_results(one, other) for one, other in zip(before, after, strict=True)]
    if None in found:
        return None
    return all(found)
