"""Whether what a model writes looks like text at all."""

import unicodedata
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import fsum, log2

from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.perplexity import ids_of, labels_of
from ascendfx.runtime.evaluate.question import means
from ascendfx.runtime.evaluate.sample import Part, Reader, Row, Sample, text_of
from ascendfx.runtime.evaluate.sums import Sums
from ascendfx.runtime.evaluate.task import Answer, Figures

PROMPT_TOKENS = 24
"""Tokens of a text that the model goes on with."""
_PERIOD, _REPEATS = 8, 4
"""An answer loops if its second half is a text of at most so many tokens, at least so often."""
_REPLACED = 0.02
"""Share of characters that are U+FFFD: bytes that are no UTF-8."""
_ENTROPY = 1.0
"""Bits per token of an answer that is made of its tokens at random."""
_FLIPPED = 0.5
"""Share of letters in another script than those of the prompt, which are in one."""
_ONE_SCRIPT = 0.9
_FEW = 8
"""With fewer letters, nothing is said of their script; with fewer tokens, of their entropy."""
_SCRIPTS = {
    "LATIN": "latin",
    "CYRILLIC": "cyrillic",
    "GREEK": "greek",
    "ARABIC": "arabic",
    "HEBREW": "hebrew",
    "DEVANAGARI": "devanagari",
    "THAI": "thai",
    "HANGUL": "hangul",
    "CJK": "han",
    "HIRAGANA": "han",
    "KATAKANA": "han",
}
"""By the first word of a character's name. Japanese is written in three of them."""
SHARE = 0.1
"""Of answers that may be garbled; with a float model, beyond its own share."""
NAMES = ("repetition", "not utf-8", "other script", "low entropy", "empty")


@dataclass(frozen=True, slots=True)
class Garbled:
    """Begins of texts: the model goes on, and answers that are no text are counted.

    ``repetition``: the second half says one thing again and again. ``not utf-8``: more than one in
    fifty characters stands for bytes that are no text. ``other script``: most letters are not in
    the script of the prompt. ``low entropy``: less than one bit per token. ``garbled``: any of
    them. Small models loop by themselves, so that a float model is judged beside them.
    """

    name: str = "garbled"

    def fits(self, row: Row) -> bool:
        """Return whether there is a text."""
        return any(name in row for name in ("text", "input_ids"))

    def read(self, row: Row, reader: Reader, place: Location) -> Sequence[Sample]:
        """Return the begin of the text, or a prompt."""
        named = "prompt" in row and "text" not in row
        ids = reader.ids(text_of(row, ("prompt",), place), place) if named else ()
        ids = ids or ids_of(row, reader, place)[:PROMPT_TOKENS]
        reader.check_length(len(ids), place, reader.new_tokens)
        text = row["prompt"] if named else row.get("text", "")
        language, kind = labels_of(row)
        return [Sample(self.name, place, language, kind, (Part(ids),), texts=(str(text),))]

    def judge(self, sample: Sample, answer: Answer) -> tuple[Sums, str]:
        """Return what is wrong with an answer."""
        found = faults(sample.texts[0], answer.text, answer.ids)
        sums = {name: float(name in found) for name in NAMES}
        shown = answer.text[:60].replace("\n", " ")
        return {**sums, "garbled": float(bool(found))}, (
            f"{', '.join(found)}: {shown}" if found else ""
        )

    def figures(self, sums: Mapping[str, float]) -> Figures:
        """Return shares of answers."""
        return means(sums, ("garbled", *NAMES))


def fails(figures: Mapping[str, float]) -> bool:
    """Return whether too many answers are garbled."""
    return figures["garbled"] > figures.get("float garbled", 0.0) + SHARE


def faults(prompt: str, text: str, ids: Sequence[int]) -> list[str]:
    """Return what is wrong with an answer, of `NAMES`."""
    if not text.strip():
        return ["empty"]
    found = {
        "repetition": loops(ids),
        "not utf-8": replaced(text) > _REPLACED,
        "other script": flips(prompt, text),
        "low entropy": len(ids) >= _FEW and entropy(ids) < _ENTROPY,
    }
    return [name for name, wrong in found.items() if wrong]


def loops(ids: Sequence[int]) -> bool:
    """Return whether the second half repeats a short text."""
    half = list(ids[len(ids) // 2 :])
    longest = min(_PERIOD, len(half) // _REPEATS)
    return any(half[period:] == half[:-period] for period in range(1, longest + 1))


def replaced(text: str) -> float:
    """Return the share of replacement characters; a character that is cut at the end is none."""
    whole = text.rstrip("\ufffd") if text.rstrip("\ufffd") else text
    return whole.count("\ufffd") / max(len(whole), 1)


def flips(prompt: str, text: str) -> bool:
    """Return whether most letters are in another script than the prompt."""
    asked, written = scripts(prompt), scripts(text)
    if asked.total() < _FEW or written.total() < _FEW:
        return False
    ((script, count),) = asked.most_common(1)
    if count < _ONE_SCRIPT * asked.total():
        return False
    return written[script] < (1 - _FLIPPED) * written.total()


def scripts(text: str) -> Counter[str]:
    """Return the number of letters in each script."""
    names = (unicodedata.name(each, "").split(" ")[0] for each in text if each.isalpha())
    return Counter(_SCRIPTS.get(name, "other") for name in names)


def entropy(ids: Sequence[int]) -> float:
    """Return the bits per token of the distribution of the tokens of a text."""
    shares = [count / len(ids) for count in Counter(ids).values()]
    return -fsum(share * log2(share) for share in shares)
