"""Decisions by batch and tokens in the code of a model: a graph takes one way for all sizes.

torch.export follows the sizes of a sample. Where code asks for a size (``if x.shape[1] > 5``), the
answer for the sample is kept, and a guard says for which sizes it holds. Sizes are taken to be at
least 2, so ``x.shape[0] > 1`` is answered without a guard; whoever calls the graph with one request
gets the other answer's result. So answers are heard where the code asks, too.
"""

import itertools
import sys
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram

from ascendfx.ir.capture.locate import FOREIGN, location_of_stack
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import Location


@dataclass(frozen=True, slots=True)
class SizeDecision:
    """One answer.

    Attributes:
        question: Over the names of sizes.
        answer: What the sample gave.
        location: The line that asked.
    """

    question: sympy.Basic
    answer: object
    location: Location


_SIZES = (1, 2, 3, 5, 8, 64, 4096, 4097)
"""Sizes at which an answer must be that of the sample; guards speak for all others."""


@contextmanager
def size_decisions_heard(heard: list[SizeDecision]) -> Generator[None]:
    """Append to a list the answers that code outside PyTorch is given."""
    before = [(kind, name, getattr(kind, name)) for kind, name in _ASKED]
    try:
        for kind, name, ask in before:
            setattr(kind, name, _listening(ask, name, heard))
        yield
    finally:
        for kind, name, ask in before:
            setattr(kind, name, ask)


_ASKED = (
    (torch.SymBool, "__bool__"),
    (torch.SymInt, "__bool__"),
    (torch.SymInt, "__int__"),
    (torch.SymInt, "__index__"),
)


def _listening(ask: Any, name: str, heard: list[SizeDecision]) -> Any:
    def answered(self: Any) -> Any:
        question = self.node.expr  # before the answer: a size that is told becomes a number
        answer = ask(self)
        frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack reads files
        file = frame.f_code.co_filename
        if not file.startswith(FOREIGN):
            if name == "__bool__" and isinstance(self, torch.SymInt):
                question = sympy.Ne(question, 0)
            heard.append(SizeDecision(question, answer, Location(file, frame.f_lineno)))
        return answer

    return answered


def refuse_size_decisions(exported: ExportedProgram, heard: list[SizeDecision]) -> None:
    """Check that the graph is that of all sizes.

    What transformers answers for sizes of at least 2 is taken to hold for 1, too: there it chooses
    between two ways to one result (a mask of one row, packed sequences of one request). Tests
    of generation with one token and one request see that.

    Raises:
        GraphError: ``size-dependent``.
    """
    refuse_heard(heard)
    for guard in _guards(exported):
        if _is_end_of_table(guard.expr):
            continue
        stack = getattr(guard, "stack", None)
        frames = [(each.filename, each.lineno or 0) for each in stack.summary()] if stack else []
        raise size_refusal(str(guard.expr), location_of_stack(frames))


def refuse_heard(heard: list[SizeDecision]) -> None:
    """As `refuse_size_decisions`, before there is a graph.

    Raises:
        GraphError: ``size-dependent``.
    """
    for decision in heard:
        own = not decision.location.file.startswith(_LIBRARY)
        if _changes(decision, _SIZES if own else _SIZES[1:]):
            raise size_refusal(str(decision.question), decision.location)


def _changes(decision: SizeDecision, sizes: tuple[int, ...]) -> bool:
    names = sorted(decision.question.free_symbols, key=str)
    for values in itertools.product(sizes, repeat=len(names)):
        answer = decision.question.subs(dict(zip(names, values, strict=True)))
        if isinstance(answer, sympy.logic.boolalg.BooleanAtom):
            if bool(answer) != bool(decision.answer):
                return True
        elif answer.is_Integer and int(answer) != decision.answer:  # pyright: ignore[reportArgumentType]
            return True
    return False


def _is_end_of_table(question: Any) -> bool:
    """Whether PyTorch wants no more tokens than a table has rows, as ``table[:tokens]`` does.

    With more of them the model itself fails.
    """
    return (
        isinstance(question, sympy.Le | sympy.Lt)
        and question.lhs.is_Symbol
        and question.rhs.is_Integer
    )


def _guards(exported: ExportedProgram) -> tuple[Any, ...]:
    """Return the guards of the sizes of the inputs."""
    for node in exported.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            sizes = [size for size in value.shape if isinstance(size, torch.SymInt)]
            if sizes:
                return tuple(sizes[0].node.shape_env.guards)
    return ()


def size_refusal(question: str, location: Location) -> GraphError:
    """Return the error for a question about sizes."""
    return GraphError(
        "size-dependent",
        "the model decides by the number of requests or tokens; a graph has one way for all",
        location,
        notes=(f"the question is `{question}`",),
        hint=(
            "compute both ways and choose by position with torch.where, or remove the case that "
            "serving never needs"
        ),
    )


def _library() -> str:
    found = find_spec("transformers")
    return str(Path(found.origin).parent) if found and found.origin else "\0"


_LIBRARY = _library()
