"""Answers in words: exact match, and F1 of their words."""

import re
import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.perplexity import labels_of
from ascendfx.runtime.evaluate.sample import (
    Part,
    Reader,
    Row,
    Sample,
    stops_of,
    text_of,
    texts_of,
)
from ascendfx.runtime.evaluate.sums import Sums
from ascendfx.runtime.evaluate.task import Answer, Figures, ratio

PROMPTS = ("prompt", "question")
_ARTICLES = re.compile(r"\b(a|an|the)\b")


@dataclass(frozen=True, slots=True)
class QuestionAnswering:
    """A question and its right answers; the model writes one line.

    ``exact``: share of answers that equal a right one but for case, punctuation, English articles
    and space. ``f1``: mean of the best F1 of their words; Chinese, Japanese and Korean characters
    are words of their own.

    Source: SQuAD, Rajpurkar et al. 2016, section 6.1.
    """

    name: str = "qa"

    def fits(self, row: Row) -> bool:
        """Return whether there are answers in words."""
        return "answers" in row or isinstance(row.get("answer"), str)

    def read(self, row: Row, reader: Reader, place: Location) -> Sequence[Sample]:
        """Return the sample."""
        answers = texts_of(row, "answers" if "answers" in row else "answer", place)
        return [prompt_sample(self.name, row, reader, place, answers, ("\n",))]

    def judge(self, sample: Sample, answer: Answer) -> tuple[Sums, str]:
        """Return what an answer adds."""
        own = words(answer.text)
        known = [words(each) for each in sample.texts]
        exact = float(any(own == each for each in known))
        return {"exact": exact, "f1": max(f1(own, each) for each in known)}, ""

    def figures(self, sums: Mapping[str, float]) -> Figures:
        """Return means over samples."""
        return means(sums, ("exact", "f1"))


def prompt_sample(
    task: str,
    row: Row,
    reader: Reader,
    place: Location,
    texts: tuple[str, ...],
    stops: tuple[str, ...],
) -> Sample:
    """Return the sample of a row with a prompt.

    Raises:
        GraphError: `bad-samples`, `sample-too-long`.
    """
    ids = reader.ids(text_of(row, PROMPTS, place), place)
    reader.check_length(len(ids), place, reader.new_tokens)
    language, kind = labels_of(row)
    ends = stops_of(row, place, stops)
    return Sample(task, place, language, kind, (Part(ids),), texts=texts, stops=ends)


def means(sums: Mapping[str, float], names: Sequence[str]) -> Figures:
    """Return means over samples, of the model and of the float model."""
    both = [f"{model}{name}" for name in names for model in ("", "float ")]
    return {name: ratio(sums, name, "samples") for name in both if name in sums}


def words(text: str) -> list[str]:
    """Return the words that are compared."""
    plain = unicodedata.normalize("NFKC", text).casefold()
    kept = "".join(" " if unicodedata.category(each)[0] in "PSC" else each for each in plain)
    spaced = "".join(f" {each} " if _is_word(each) else each for each in kept)
    return _ARTICLES.sub(" ", spaced).split()


def f1(own: Sequence[str], known: Sequence[str]) -> float:
    """Return the harmonic mean of precision and recall of words."""
    if not own or not known:
        return float(own == known)
    common = sum((Counter(own) & Counter(known)).values())
    return 2 * common / (len(own) + len(known))


def _is_word(character: str) -> bool:
    return unicodedata.category(character) == "Lo" and ord(character) >= 0x2E80
