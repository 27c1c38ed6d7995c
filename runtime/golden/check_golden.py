"""Compile again, and compare with what was recorded."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.passes.expose_hidden import CHAININGS
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.golden.changed_text import Change, changed_code, changed_programs
from ascendfx.runtime.golden.golden_directory import Golden, read_golden
from ascendfx.runtime.golden.make_golden import Made, Subject
from ascendfx.runtime.golden.moved_outputs import broken_pass, changed_weights, moved_outputs
from ascendfx.runtime.golden.record_golden import keep, made_beside
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.progress import Progress, silent
from ascendfx.runtime.shown_error import shown_error


@dataclass(frozen=True)
class Checked:
    """What a check found.

    Attributes:
        changes: Everything that is not as recorded; empty if all is.
        compiled: The model as it is compiled now.
    """

    changes: tuple[Change, ...]
    compiled: CompiledModel

    @property
    def lines(self) -> tuple[str, ...]:
        """The report: causes first, texts with their diffs last."""
        found: list[str] = []
        for change in self.changes:
            found += [f"{change.kind}: {change.what}", *(f"  {line}" for line in change.lines)]
        kinds = {change.kind for change in self.changes}
        if kinds and not kinds & {"output", "pass", "tokens", "weights"}:
            found.append("outputs: rounding explains every difference")
        return tuple(found)


def recorded_subject(golden: Golden, model: Path | None = None) -> Subject:
    """Return what a golden directory is of, with the recorded options.

    Args:
        golden: The recorded one.
        model: A directory to use instead of the recorded one.

    Raises:
        GraphError: It is of a module, which no file can name, or of options that are gone.
    """
    header = golden.header
    if model is None and header.model is None:
        raise GraphError(
            code="golden-of-module",
            reason=f"{golden.directory} is of a module, so it names no model directory",
            hint="check it with the fixture `golden_compile`, or pass --model DIR",
        )
    options = header.options
    try:
        limits = Limits(**options["limits"])
        return Subject(
            model or golden.directory / str(header.model),
            options["target"],
            options["dtype"],
            limits,
            options["strategy"],
            draft_chaining=options.get("draft_chaining", CHAININGS[0]),
            tokens=header.tokens,
            new_tokens=header.new_tokens,
        )
    except (KeyError, TypeError) as error:
        raise GraphError(
            "damaged-golden",
            f"{golden.directory}: its options cannot be used: {shown_error(error)}",
            hint="get it from version control, or record it again",
        ) from error


def check_golden(
    directory: Path,
    subject: Callable[[Golden], Subject] = recorded_subject,
    *,
    update: bool = False,
    tell: Callable[[Checked], None] = lambda _: None,
    progress: Progress = silent,
) -> Checked:
    """Compile again and compare programs, plans, kernels and outputs with the recorded ones.

    Args:
        directory: The golden directory.
        subject: What to compile. It is run on the recorded texts if it names none.
        update: Whether to replace the recorded one by what is there now, if they differ.
        tell: Called with what was found, before anything is replaced.
        progress: Told about each stage.

    Raises:
        GraphError: The directory cannot be read or replaced, or the model not be compiled.
    """
    recorded = read_golden(directory)
    wanted = subject(recorded)
    if wanted.tokens is None:
        wanted = replace(wanted, tokens=recorded.header.tokens)
    with made_beside(wanted, directory, progress) as made:
        checked = Checked(tuple(_changes(recorded, made, progress)), made.compiled)
        tell(checked)
        if update and checked.changes:
            keep(made, directory)
    return checked


def _changes(recorded: Golden, made: Made, progress: Progress) -> Iterator[Change]:
    old, new = recorded.header, made.golden.header
    for name in ("options", "tokens", "new_tokens"):
        was, now = getattr(old, name), getattr(new, name)
        if was != now:
            yield Change("options", f"{name} were {was}, are {now}")
    if old.tokens != new.tokens:
        return  # nothing else can be compared
    yield from changed_weights(recorded, made.golden)
    programs = tuple(changed_programs(recorded, made.golden))
    outputs = tuple(moved_outputs(recorded, made.golden))
    if programs or outputs:
        broken = broken_pass(recorded, made.golden, TensorsByKey(made.compiled.source), progress)
        yield from (broken,) if broken else ()
    yield from outputs
    if old.new_tokens == new.new_tokens:
        yield from _changed_tokens(old.generated, new.generated)
    yield from programs
    yield from changed_code(recorded, made.golden)


def _changed_tokens(old: Sequence[Sequence[int]], new: Sequence[Sequence[int]]) -> Iterator[Change]:
    for text, (was, now) in enumerate(zip(old, new, strict=False)):
        for i, (one, other) in enumerate(zip(was, now, strict=False)):
            if one != other:
                what = f"text {text}: generated token {i} was {one}, is {other}"
                yield Change("tokens", what)
                break
