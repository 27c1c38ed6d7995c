"""Which of several continuations a model finds likeliest."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum
from typing import Any

from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.perplexity import labels_of
from ascendfx.runtime.evaluate.sample import Part, Reader, Row, Sample, text_of, texts_of, wrong
from ascendfx.runtime.evaluate.sums import Sums
from ascendfx.runtime.evaluate.task import Figures, ratio
from ascendfx.runtime.evaluate.token_scores import ModelScores, TokenScores

_PROMPTS = ("prompt", "question")
_STATEMENTS = ("prompt", "statement", "question")
_WORDS = ("True", "False")


@dataclass(frozen=True, slots=True)
class MultipleChoice:
    """A prompt and continuations, one of which is right: the likeliest one is taken.

    ``accuracy`` takes log-likelihoods as they are, ``accuracy per character`` divides them by the
    characters of the continuation, which short ones do not profit from. A prompt and a
    continuation have a space between them, or what the row names as its ``separator``. All
    continuations are compared from the first token where one of them differs from the prompt's.
    """

    name: str = "choice"

    def fits(self, row: Row) -> bool:
        """Return whether there are choices."""
        return "choices" in row

    def read(self, row: Row, reader: Reader, place: Location) -> Sequence[Sample]:
        """Return the sample."""
        choices = texts_of(row, "choices", place, least=2)
        right = _right(row, choices, place)
        prompt = text_of(row, _PROMPTS, place)
        return [_sample(self.name, row, prompt, choices, reader, place, right=right)]

    def sums(self, sample: Sample, scores: Sequence[TokenScores]) -> Sums:
        """Return what one sample adds."""
        return choice_sums(sample, scores)

    def figures(self, sums: Mapping[str, float]) -> Figures:
        """Return what sums over samples mean."""
        return choice_figures(sums)


@dataclass(frozen=True, slots=True)
class TrueFalse:
    """A statement that is true or false: the likelier of two words behind it is taken.

    The words are ``True`` and ``False``, or those that the row names as its ``words``, that for
    true first. A question says itself how it is to be answered.
    """

    name: str = "true-false"

    def fits(self, row: Row) -> bool:
        """Return whether the answer is true or false."""
        return isinstance(row.get("answer"), bool)

    def read(self, row: Row, reader: Reader, place: Location) -> Sequence[Sample]:
        """Return the sample."""
        words = texts_of(row, "words", place, least=2) if "words" in row else _WORDS
        if len(words) != 2:
            raise wrong(
                f"`words` has {len(words)} texts", "write that for true and for false", place
            )
        answer = row.get("answer")
        if not isinstance(answer, bool):
            reason = f"`answer` is {answer!r:.60}" if "answer" in row else "there is no `answer`"
            raise wrong(reason, "write true or false as `answer`", place)
        prompt = text_of(row, _STATEMENTS, place)
        return [_sample(self.name, row, prompt, words, reader, place, right=int(not answer))]

    def sums(self, sample: Sample, scores: Sequence[TokenScores]) -> Sums:
        """Return what one sample adds."""
        return choice_sums(sample, scores)

    def figures(self, sums: Mapping[str, float]) -> Figures:
        """Return what sums over samples mean."""
        return choice_figures(sums)


def choice_sums(sample: Sample, scores: Sequence[TokenScores]) -> Sums:
    """Return whether the likeliest choice is right, and whether it is that of the float model."""
    own = _taken(sample, [each.own for each in scores])
    sums = {
        "right": float(own[0] == sample.right),
        "right per character": float(own[1] == sample.right),
    }
    truths = [each.truth for each in scores if each.truth is not None]
    if truths:
        true = _taken(sample, truths)
        sums["float right"] = float(true[0] == sample.right)
        sums["float right per character"] = float(true[1] == sample.right)
        sums["same"] = float(own[0] == true[0])
    return sums


def choice_figures(sums: Mapping[str, float]) -> Figures:
    """Return shares of samples."""
    names = {
        "right": "accuracy",
        "right per character": "accuracy per character",
        "float right": "float accuracy",
        "float right per character": "float accuracy per character",
        "same": "same choice",
    }
    return {told: ratio(sums, name, "samples") for name, told in names.items() if name in sums}


def _taken(sample: Sample, scores: Sequence[ModelScores]) -> tuple[int, int]:
    """Return the likeliest choice, and the likeliest one per character; the first of equal ones."""
    told = [
        fsum(each.told[part.start - 1 :]) for part, each in zip(sample.parts, scores, strict=True)
    ]
    each = [total / part.characters for total, part in zip(told, sample.parts, strict=True)]
    return told.index(max(told)), each.index(max(each))


def _sample(
    task: str,
    row: Row,
    prompt: str,
    choices: Sequence[str],
    reader: Reader,
    place: Location,
    *,
    right: int,
) -> Sample:
    """Return the choices as texts behind the prompt."""
    separator = _separator(row, prompt, place)
    read = reader.ids(prompt, place)
    whole = [reader.ids(prompt + separator + each, place) for each in choices]
    start = min(_common(read, each) for each in whole)
    if not start:
        raise wrong("no token of the prompt stands before all choices", "make it longer", place)
    if any(len(each) <= start for each in whole):
        raise wrong("a choice adds no token to the prompt", "choose other texts", place)
    for each in whole:
        reader.check_length(len(each), place)
    parts = tuple(Part(ids, start, len(each)) for ids, each in zip(whole, choices, strict=True))
    language, kind = labels_of(row)
    return Sample(task, place, language, kind, parts, right)


def _separator(row: Row, prompt: str, place: Location) -> str:
    given = row.get("separator", "" if prompt[-1].isspace() else " ")
    if not isinstance(given, str):
        raise wrong(f"`separator` is {given!r:.60}", "write a text", place)
    return given


def _common(read: Sequence[int], whole: Sequence[int]) -> int:
    """Return how many tokens both begin with."""
    return next(
        (i for i, (a, b) in enumerate(zip(read, whole, strict=False)) if a != b),
        min(len(read), len(whole)),
    )


def _right(row: Row, choices: Sequence[str], place: Location) -> int:
    """Return the number of the right choice: given as such, from 0, or as its text."""
    answer: Any = row.get("answer")
    if isinstance(answer, str) and choices.count(answer) == 1:
        return choices.index(answer)
    if type(answer) is int and 0 <= answer < len(choices):
        return answer
    reason = f"`answer` is {answer!r:.60}" if "answer" in row else "there is no `answer`"
    raise wrong(
        f"{reason}, with {len(choices)} choices",
        f"write the number of the right one, 0 to {len(choices) - 1}, or its text",
        place,
    )
