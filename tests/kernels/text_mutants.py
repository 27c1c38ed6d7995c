"""Wrong versions of an emitted kernel, for testing that the emulator notices.

`text_mutants` changes one place of the text per mutant: it drops or alters a synchronisation call,
both calls of a hand-over through a queue, a copy, a field of a parameter struct, a buffer size, an
offset, a loop, a condition or a constant. `survivors` builds and runs them: a mutant is killed if
the run raises (an emulator fault) or fails its check of the values.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.emulator import BuiltKernel, EmulatorError, build_kernels


@dataclass(frozen=True, slots=True)
class Mutant:
    """One change of a text.

    Attributes:
        kind: Name of the rule that made it.
        line: Line number, from 1.
        before: The line as emitted, without indentation.
        after: The line as changed; empty if it was dropped.
        source: The complete changed text.
    """

    kind: str
    line: int
    before: str
    after: str
    source: str

    def __str__(self) -> str:
        return f"{self.kind}, line {self.line}: {self.before} -> {self.after or '(dropped)'}"


def identities(mutants: Sequence[Mutant]) -> dict[str, Mutant]:
    """Return each mutant by a text that other lines of the kernel do not change.

    It has the rule and the two lines; equal ones are counted: ``... (2)`` is the second.
    """
    found: dict[str, Mutant] = {}
    for mutant in mutants:
        text = f"{mutant.kind}: {mutant.before} -> {mutant.after or '(dropped)'}"
        number = 1
        while (name := text if number == 1 else f"{text} ({number})") in found:
            number += 1
        found[name] = mutant
    return found


_SYNC = re.compile(
    r"^(\w+(\.\w+)*\.(EnQue|FreeTensor)\(.*\)"
    r"|(SetFlag|WaitFlag|PipeBarrier|CrossCoreSetFlag|CrossCoreWaitFlag|Handoff)(<.*>)?\(.*\));$"
)
_HAND_OVER = re.compile(
    r"\s*(?P<queue>[\w.]+)\.EnQue\((?P<tensor>\w+)\);\n"
    r"\s*(?P=tensor) = (?P=queue)\.DeQue<\w+>\(\);$"
)
_COPY = re.compile(
    r"^(DataCopy|DataCopyPad|LoadData|LoadDataWithTranspose|Mmad|Fixpipe<.*>)\(.*\);$"
)
_FIELD = re.compile(r"^(?P<field>\w+\.\w+) = (?P<value>.+);$")
_BUFFER = re.compile(r"^(?P<head>\w+(\.\w+)*\.InitBuffer\(.*, )(?P<size>[^,]+)\);$")
_INDEX = re.compile(r"\[(?P<index>[^\[\]]+)\]")
_FOR = re.compile(r"^for \((?P<init>.*); (?P<test>.*); (?P<step>.*)\) \{$")
_IF = re.compile(r"^if \((?P<test>.*)\) \{$")
_CONSTANT = re.compile(r"^constexpr (?P<kind>\w+) (?P<name>\w+) = (?P<value>\d+);$")
_EVENT = re.compile(r"HardEvent::(?P<source>[A-Z0-9]+)_(?P<sink>[A-Z0-9]+)>")
_EVENT_ID = re.compile(r"^(?P<head>(SetFlag|WaitFlag|CrossCore\w+Flag)(<.*>)?\()(?P<id>.+)\);$")


def text_mutants(source: str) -> tuple[Mutant, ...]:
    """Return every mutant of ``source``, in the order of the lines."""
    lines = source.splitlines()
    mutants: list[Mutant] = []
    for number, line in enumerate(lines):
        text = line.strip()
        if body := _without_hand_over(lines, number):
            mutants.append(Mutant("dropped-hand-over", number + 1, text, "", body))
        indent = line[: len(line) - len(line.lstrip())]
        for kind, change in _RULES:
            for after in change(text):
                changed = [*lines[:number], indent + after, *lines[number + 1 :]]
                body = "\n".join(changed) + "\n"
                mutants.append(Mutant(kind, number + 1, text, after, body))
    return tuple(mutants)


def _without_hand_over(lines: Sequence[str], number: int) -> str:
    """Return the text without an EnQue and the DeQue behind it; empty: there are none."""
    match = _HAND_OVER.match("\n".join(lines[number : number + 2]))
    return "\n".join([*lines[:number], *lines[number + 2 :]]) + "\n" if match else ""


def survivors(
    kernel: Kernel,
    mutants: Sequence[Mutant],
    run: Callable[[BuiltKernel], None],
    target: Target,
) -> list[Mutant]:
    """Return the mutants that ``run`` accepts.

    Args:
        kernel: The kernel the mutants were made from.
        mutants: Changed texts.
        run: Launches the kernel and asserts its results.
        target: Chip to build for.

    Raises:
        AssertionError: A mutant does not compile, so that it says nothing.
    """
    alive: list[Mutant] = []
    for mutant, built in _built(kernel, mutants, target):
        assert built is not None, f"does not compile: {mutant}"
        try:
            run(built)
        except (EmulatorError, AssertionError):
            continue
        alive.append(mutant)
    return alive


def _built(
    kernel: Kernel, mutants: Sequence[Mutant], target: Target
) -> Iterator[tuple[Mutant, BuiltKernel | None]]:
    named = {f"{kernel.name}_mutant{i}": mutant for i, mutant in enumerate(mutants)}
    word = re.compile(rf"\b{kernel.name}\b")
    kernels = [
        replace(kernel, name=name, source=word.sub(name, mutant.source))
        for name, mutant in named.items()
    ]
    try:
        built = build_kernels(kernels, target)
    except GraphError:
        built = {}
        for each in kernels:  # find the one that does not compile
            try:
                built |= build_kernels([each], target)
            except GraphError:
                yield named[each.name], None
    for name, mutant in named.items():
        if name in built:
            yield mutant, built[name]


def _dropped(pattern: re.Pattern[str]) -> Callable[[str], Iterator[str]]:
    def change(text: str) -> Iterator[str]:
        if pattern.match(text):
            yield ""

    return change


def _skipped_wait(text: str) -> Iterator[str]:
    if ".DeQue<" in text:
        yield text.replace(".DeQue<", ".AllocTensor<")


def _turned_event(text: str) -> Iterator[str]:
    turned = _EVENT.sub(r"HardEvent::\g<sink>_\g<source>>", text)
    if turned != text:
        yield turned


def _other_event_id(text: str) -> Iterator[str]:
    if match := _EVENT_ID.match(text):
        yield f"{match['head']}({match['id']}) ^ 1);"


def _wrong_field(text: str) -> Iterator[str]:
    match = _FIELD.match(text)
    if not match:
        return
    field, value = match["field"], match["value"]
    if value.startswith("QuantMode_t::"):
        other = "F322BF16" if value.endswith("NoQuant") else "NoQuant"
        yield f"{field} = QuantMode_t::{other};"
    elif value in {"true", "false", "first"} or ("==" in value and "?" not in value):
        yield f"{field} = !({value});"
    else:
        yield f"{field} = ({value}) + 1;"


def _small_buffer(text: str) -> Iterator[str]:
    if match := _BUFFER.match(text):
        yield f"{match['head']}({match['size']}) / 2);"


def _dropped_term(text: str) -> Iterator[str]:
    if not text.endswith(");"):
        return
    for match in _INDEX.finditer(text):
        terms = match["index"].split(" + ")
        for i in range(len(terms)):
            rest = " + ".join((*terms[:i], *terms[i + 1 :])) or "0"
            if match["index"] != "0" and _balanced(rest):
                yield f"{text[: match.start()]}[{rest}]{text[match.end() :]}"


def _balanced(text: str) -> bool:
    return text.count("(") == text.count(")")


def _wrong_loop(text: str) -> Iterator[str]:
    match = _FOR.match(text)
    if not match:
        return
    step = "1"
    if " += " in match["step"]:
        variable, step = match["step"].split(" += ")
        yield f"for ({match['init']}; {match['test']}; {variable} += 2 * ({step})) {{"
    if " < " in match["test"]:
        variable, end = match["test"].split(" < ", 1)
        yield f"for ({match['init']}; {variable} + {step} < {end}; {match['step']}) {{"


def _wrong_condition(text: str) -> Iterator[str]:
    if match := _IF.match(text):
        yield f"if (!({match['test']})) {{"


def _wrong_constant(text: str) -> Iterator[str]:
    if match := _CONSTANT.match(text):
        value = int(match["value"])
        yield f"constexpr {match['kind']} {match['name']} = {value + 1};"
        if value > 1:
            yield f"constexpr {match['kind']} {match['name']} = {value // 2};"


_RULES: tuple[tuple[str, Callable[[str], Iterator[str]]], ...] = (
    ("dropped-sync", _dropped(_SYNC)),
    ("dropped-instruction", _dropped(_COPY)),
    ("skipped-wait", _skipped_wait),
    ("turned-event", _turned_event),
    ("other-event-id", _other_event_id),
    ("wrong-field", _wrong_field),
    ("small-buffer", _small_buffer),
    ("dropped-term", _dropped_term),
    ("wrong-loop", _wrong_loop),
    ("wrong-condition", _wrong_condition),
    ("wrong-constant", _wrong_constant),
)
