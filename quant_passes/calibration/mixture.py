"""Sets of texts in stated proportions of tokens, cut into windows of one length."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.calibration.text_sets import CalibrationText, read_texts
from ascendfx.quant_passes.policy.recipe import Calibration

Encode = Callable[[str], Sequence[int]]
"""Text to token ids, by the model's own tokenizer."""
_MOST_TOKENS = 1 << 40
_LARGEST_SHARE = 1e15


@dataclass(frozen=True, slots=True)
class BalanceRow:
    """What one kind of texts of one language is in a mixture.

    Attributes:
        source: Name of the set.
        language: As the set has it.
        kind: As the set has it.
        texts: How many texts; the last one may be cut.
        tokens: How many tokens of them.
    """

    source: str
    language: str
    kind: str
    texts: int
    tokens: int


@dataclass(frozen=True, slots=True, eq=False)
class Mixture:
    """What calibration reads.

    Attributes:
        windows: Token ids ``[windows, length]``: the texts one after the other, in an order drawn
            by the seed; what is left at the end is dropped.
        balance: What it is made of, set by set, the most tokens first.
        remarks: Sets that have fewer tokens than their share.
    """

    windows: NDArray[np.int64]
    balance: tuple[BalanceRow, ...]
    remarks: tuple[str, ...] = ()

    @property
    def tokens(self) -> int:
        """Tokens of all windows."""
        return self.windows.size

    def table(self) -> tuple[str, ...]:
        """Return the balance as lines, with the share of each row."""
        total = max(1, sum(row.tokens for row in self.balance))
        rows = [("set", "language", "kind", "texts", "tokens", "share")]
        rows += [
            (r.source, r.language, r.kind, f"{r.texts}", f"{r.tokens}", f"{r.tokens / total:.1%}")
            for r in self.balance
        ]
        widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
        return tuple(
            "  ".join(
                word.ljust(width) if i < 3 else word.rjust(width)
                for i, (word, width) in enumerate(zip(row, widths, strict=True))
            ).rstrip()
            for row in rows
        )


@dataclass(frozen=True, slots=True)
class _Chosen:
    source: str
    text: CalibrationText
    ids: tuple[int, ...]


def mix(calibration: Calibration, encode: Encode, vocabulary: int) -> Mixture:
    """Return the mixture that a recipe asks for; the same arguments give the same tokens.

    Texts of a set are drawn without repetition until its share of the tokens is reached.

    Args:
        calibration: Sets with their shares, tokens, length of windows, seed.
        encode: Makes token ids of texts.
        vocabulary: Number of tokens that the model knows.

    Raises:
        GraphError: `bad-texts`: a set cannot be read, has tokens that the model does not know, or
            all of them have fewer tokens than a window; a share or a number of tokens is none.
    """
    _check_numbers(calibration)
    shares = sum(each.share for each in calibration.texts)
    chosen: list[_Chosen] = []
    remarks: list[str] = []
    for number, each in enumerate(calibration.texts):
        wanted = round(calibration.tokens * each.share / shares)
        random = np.random.default_rng([calibration.seed, number])
        taken = list(_drawn(read_texts(each.file), wanted, random, encode, vocabulary))
        chosen += (_Chosen(each.file.name, text, ids) for text, ids in taken)
        found = sum(len(ids) for _, ids in taken)
        if found < wanted:
            remarks.append(f"{each.file.name} has {found:,} tokens, its share are {wanted:,}")
    windows = _windows(chosen, calibration)
    return Mixture(windows, _balance(chosen), tuple(remarks))


def _check_numbers(calibration: Calibration) -> None:
    for name in ("tokens", "length"):
        value: int = getattr(calibration, name)
        if not 1 <= value <= _MOST_TOKENS:
            reason = f"{name}={_shortened(value)}: calibration reads 1 to {_MOST_TOKENS:,} tokens"
            raise GraphError("bad-texts", reason, hint="take the usual number: leave it out")
    for each in calibration.texts:
        if not 0 < each.share <= _LARGEST_SHARE:
            reason = f"the share of {each.file} is {each.share:g}"
            hint = f"write a number above 0, at most {_LARGEST_SHARE:g}"
            raise GraphError("bad-texts", reason, hint=hint)


def _shortened(value: int) -> str:
    return str(value) if value.bit_length() < 64 else f"a number of {value.bit_length()} bits"


def _drawn(
    texts: Sequence[CalibrationText],
    wanted: int,
    random: np.random.Generator,
    encode: Encode,
    vocabulary: int,
) -> Iterator[tuple[CalibrationText, tuple[int, ...]]]:
    left = wanted
    for index in random.permutation(len(texts)):
        if left <= 0:
            return
        text = texts[index]
        ids = text.content if isinstance(text.content, tuple) else tuple(encode(text.content))
        _check(text, ids, vocabulary)
        if ids:
            yield text, ids[:left]
        left -= len(ids)


def _check(text: CalibrationText, ids: Sequence[int], vocabulary: int) -> None:
    for place, token in enumerate(ids):
        if not 0 <= token < vocabulary:
            reason = f"token {place} of the text is {token}, and the model knows {vocabulary:,}"
            hint = "use the tokenizer of this model, or texts that were tokenised with it"
            raise GraphError("bad-texts", reason, text.location, hint=hint)


def _windows(chosen: Sequence[_Chosen], calibration: Calibration) -> NDArray[np.int64]:
    random = np.random.default_rng([calibration.seed, len(calibration.texts)])
    order = [chosen[index] for index in random.permutation(len(chosen))]
    ids = np.array([token for each in order for token in each.ids], np.int64)
    count = len(ids) // calibration.length
    if not count:
        reason = (
            f"the texts of calibration have {len(ids):,} tokens, fewer than a window of "
            f"{calibration.length:,}"
        )
        raise GraphError("bad-texts", reason, hint="give more texts, or a smaller `length`")
    return ids[: count * calibration.length].reshape(count, calibration.length)


def _balance(chosen: Sequence[_Chosen]) -> tuple[BalanceRow, ...]:
    sums: dict[tuple[str, str, str], tuple[int, int]] = {}
    for each in chosen:
        key = each.source, each.text.language, each.text.kind
        texts, tokens = sums.get(key, (0, 0))
        sums[key] = texts + 1, tokens + len(each.ids)
    rows = (BalanceRow(*key, *counts) for key, counts in sums.items())
    return tuple(sorted(rows, key=lambda r: (r.source, -r.tokens, r.language, r.kind)))
