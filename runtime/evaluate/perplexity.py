"""How well a model predicts texts, and how far it is from the float model."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from math import exp, fsum
from typing import Any

from ascendfx.ir.location import Location
from ascendfx.runtime.evaluate.language_model import Ids
from ascendfx.runtime.evaluate.sample import Part, Reader, Row, Sample, text_of, wrong
from ascendfx.runtime.evaluate.sums import Sums
from ascendfx.runtime.evaluate.task import Figures, ratio
from ascendfx.runtime.evaluate.token_scores import ModelScores, TokenScores

_LARGEST = 700.0
"""Beyond it, a perplexity is no float64."""


@dataclass(frozen=True, slots=True)
class Perplexity:
    """Texts, cut into windows; the first token of a window is read only.

    ``perplexity``: exp of the mean of -log p of tokens. ``kl``: mean of KL(float model | model), in
    nats, ``top1``: share of places with the float model's likeliest token; both of all places, also
    behind the last token. ``drafts accepted``: share of places where the draft layer's likeliest
    token is that of the model, for text as it stands; ``overlap``: mean of sum min(p, q).
    """

    name: str = "perplexity"

    def fits(self, row: Row) -> bool:
        """Return whether there is a text."""
        return "text" in row or "input_ids" in row

    def read(self, row: Row, reader: Reader, place: Location) -> Sequence[Sample]:
        """Return a sample for each window."""
        ids = ids_of(row, reader, place)
        if len(ids) < 2:
            raise wrong("the text has one token: nothing is predicted", "leave it out", place)
        language, kind = labels_of(row)
        window = reader.window
        cut = [ids[i : i + window] for i in range(0, len(ids), window)]
        return [
            Sample(self.name, place, language, kind, (Part(each),)) for each in cut if len(each) > 1
        ]

    def sums(self, sample: Sample, scores: Sequence[TokenScores]) -> Sums:
        """Return what one window adds."""
        (part,), (found,) = sample.parts, scores
        sums = {"tokens": float(len(part.ids) - 1), "places": float(len(part.ids))}
        sums |= _sums_of("", found.own)
        if found.truth is not None and found.divergence is not None:
            sums |= _sums_of("float ", found.truth)
            sums["kl"] = fsum(found.divergence)
            sums["top1"] = float((found.own.best == found.truth.best).sum())
        return sums

    def figures(self, sums: Mapping[str, float]) -> Figures:
        """Return what sums over windows mean."""
        found: Figures = {"tokens": sums["tokens"], "perplexity": _perplexity(sums, "")}
        if "float loss" in sums:
            found["float perplexity"] = _perplexity(sums, "float ")
            change = ratio(sums, "loss", "tokens") - ratio(sums, "float loss", "tokens")
            found["change"] = exp(min(change, _LARGEST)) - 1
            found["kl"] = ratio(sums, "kl", "places")
            found["top1"] = ratio(sums, "top1", "places")
        found["entropy"] = ratio(sums, "entropy", "places")
        for name in ("", "float "):
            if f"{name}accepted" in sums:
                found[f"{name}drafts accepted"] = ratio(sums, f"{name}accepted", "tokens")
                found[f"{name}overlap"] = ratio(sums, f"{name}overlap", "tokens")
        if "float accepted" in sums and "accepted" in sums:
            found["drafts accepted change"] = (
                found["drafts accepted"] - found["float drafts accepted"]
            )
        return found


def ids_of(row: Row, reader: Reader, place: Location) -> Ids:
    """Return the tokens of a text row: its text, or ids.

    Raises:
        GraphError: `bad-samples`: it has neither, or ids that are not in the vocabulary.
    """
    if "text" in row or "input_ids" not in row:
        return reader.ids(text_of(row, ("text", "input_ids"), place), place)
    given: Any = row["input_ids"]
    if not isinstance(given, list) or not given or not all(type(each) is int for each in given):  # pyright: ignore[reportUnknownVariableType]
        raise wrong(f"`input_ids` is {given!r:.60}", "write a list of token ids", place)
    ids: tuple[int, ...] = tuple(given)  # pyright: ignore[reportUnknownArgumentType]
    known = reader.card.vocabulary
    for each in ids:
        if not 0 <= each < known:
            raise wrong(
                f"`input_ids` has {each}; the vocabulary of {reader.card.name} has {known:,} ids",
                "write tokens of this model, or texts",
                place,
            )
    return ids


def labels_of(row: Row) -> tuple[str, str]:
    """Return the language and the kind of a row."""
    language, kind = (str(row.get(name) or "?") for name in ("language", "kind"))
    return language, kind


def _sums_of(name: str, scores: ModelScores) -> dict[str, float]:
    sums = {f"{name}loss": -fsum(scores.told), f"{name}entropy": fsum(scores.entropy)}
    if scores.drafts is not None:
        sums[f"{name}accepted"] = float(scores.drafts.accepted.sum())
        sums[f"{name}overlap"] = fsum(scores.drafts.overlap)
        sums[f"{name}draft loss"] = -fsum(scores.drafts.told)
    return sums


def _perplexity(sums: Mapping[str, float], name: str) -> float:
    return exp(min(ratio(sums, f"{name}loss", "tokens"), _LARGEST))
