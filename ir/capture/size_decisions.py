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
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import sympy
import torch
from torch.export import ExportedProgram
from torch.fx.experimental.symbolic_shapes import ShapeEnv

from ascendfx.ir.capture.locate import FOREIGN
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.location import UNKNOWN, Location


@dataclass(frozen=True, slots=True)
class SizeDecision:
    """One answer.

    Attributes:
        question: Over the names of sizes.
        answer: What the sample gave.
        known: What PyTorch knows of the sizes: those of two inputs may have to be equal.
        location: The line that asked.
    """

    question: sympy.Basic
    answer: object
    known: Any
    location: Location


@dataclass(frozen=True, slots=True)
class Heard:
    """What was asked while a model was traced.

    Attributes:
        decisions: Answers that code outside PyTorch was given.
        places: The lines at which guards arose, by their text.
    """

    decisions: list[SizeDecision] = field(default_factory=list[SizeDecision])
    places: dict[str, Location] = field(default_factory=dict[str, Location])


_SIZES = (1, 2, 3, 5, 8, 64, 4096, 4097)
"""Sizes at which an answer must be that of the sample; guards speak for all others."""


@contextmanager
def size_decisions_heard(heard: Heard) -> Generator[None]:
    """Keep the answers that code is given."""
    before = [(kind, name, getattr(kind, name)) for kind, name in _ASKED]
    evaluate = ShapeEnv.evaluate_expr
    try:
        for kind, name, ask in before:
            setattr(kind, name, _listening(ask, name, heard.decisions))
        ShapeEnv.evaluate_expr = _placing(evaluate, heard.places)
        yield
    finally:
        ShapeEnv.evaluate_expr = evaluate
        for kind, name, ask in before:
            setattr(kind, name, ask)


def _placing(evaluate: Any, places: dict[str, Location]) -> Any:
    def evaluated(self: Any, *arguments: Any, **keywords: Any) -> Any:
        count = len(self.guards)
        answer = evaluate(self, *arguments, **keywords)
        for guard in self.guards[count:]:
            places[str(guard.expr)] = _line_that_called()
        return answer

    return evaluated


def _line_that_called() -> Location:
    frame = sys._getframe(1)  # pyright: ignore[reportPrivateUsage]  # inspect.stack reads files
    while frame is not None:
        if not frame.f_code.co_filename.startswith(FOREIGN):
            return Location(frame.f_code.co_filename, frame.f_lineno)
        frame = frame.f_back
    return UNKNOWN


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
            heard.append(
                SizeDecision(question, answer, self.node.shape_env, Location(file, frame.f_lineno))
            )
        return answer

    return answered


def refuse_size_decisions(exported: ExportedProgram, heard: Heard) -> None:
    """Check that the graph is that of all sizes.

    What transformers answers for sizes of at least 2 is taken to hold for 1, too: there it chooses
    between two ways to one result (a mask of one row, packed sequences of one request). Tests
    of generation with one token and one request see that.

    Raises:
        GraphError: ``size-dependent``.
    """
    refuse_heard(heard)
    known = _known_sizes(exported)
    for guard in known.guards if known else ():
        question = known.replace(guard.expr)
        if question == sympy.true or _holds_for_models_that_run(question):
            continue
        raise size_refusal(str(question), heard.places.get(str(guard.expr), UNKNOWN))


def refuse_heard(heard: Heard) -> None:
    """As `refuse_size_decisions`, before there is a graph.

    Raises:
        GraphError: ``size-dependent``.
    """
    for decision in heard.decisions:
        own = not decision.location.file.startswith(_LIBRARY)
        if _changes(decision, _SIZES if own else _SIZES[1:]):
            raise size_refusal(str(decision.question), decision.location)


def _changes(decision: SizeDecision, sizes: tuple[int, ...]) -> bool:
    question = decision.question
    if isinstance(decision.answer, bool):  # a size that was told is known to be the sample's
        question = decision.known.replace(question)
    names = sorted(question.free_symbols, key=str)
    for values in itertools.product(sizes, repeat=len(names)):
        answer = question.subs(dict(zip(names, values, strict=True)))
        if isinstance(answer, sympy.logic.boolalg.BooleanAtom):
            if bool(answer) != bool(decision.answer):
                return True
        elif answer.is_Integer and int(answer) != decision.answer:  # pyright: ignore[reportArgumentType]
            return True
    return False


def _holds_for_models_that_run(question: Any) -> bool:
    """Whether PyTorch asks by itself, and the model fails or computes the same with other sizes.

    It wants no more tokens than a table has rows (``table[:tokens]``): with more of them the model
    itself fails. And it asks whether a size is 1 and would be repeated: of two sizes that are equal
    for all numbers of tokens, both are.
    """
    below = isinstance(question, sympy.Le | sympy.Lt) and question.lhs.is_Symbol
    return (below or isinstance(question, sympy.Ne)) and question.rhs.is_Integer


def _known_sizes(exported: ExportedProgram) -> Any:
    """Return what PyTorch knows of the sizes of the inputs, or None."""
    for node in exported.graph.nodes:
        value = node.meta.get("val")
        if node.op == "placeholder" and isinstance(value, torch.Tensor):
            sizes = [size for size in value.shape if isinstance(size, torch.SymInt)]
            if sizes:
                return sizes[0].node.shape_env
    return None


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
