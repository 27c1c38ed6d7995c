"""Codes of exponents for DFloat11, and the tables that its kernels decode them with."""

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from ascendfx.quant_passes.formats.huffman import END, Code, huffman_codes

FIRST_POINTER = 240
"""Entries of a table from here on are pointers: ``256 - entry`` is the table for the next byte."""
_MOST_TABLES = 256 - FIRST_POINTER
_LONGEST = 32


@dataclass(frozen=True, slots=True, eq=False)
class CodeTables:
    """Of each exponent its code, to write and to read.

    Attributes:
        codes: uint64 ``[256]``; the code of each exponent that occurs.
        lengths: uint8 ``[256]``; bits of each code.
        end: The code of the end symbol.
        luts: uint8 ``[tables + 1, 256]``, as they are stored.
    """

    codes: NDArray[np.uint64]
    lengths: NDArray[np.uint8]
    end: Code
    luts: NDArray[np.uint8]


def code_tables(counts: Mapping[int, int]) -> CodeTables:
    """Return the tables for exponents that occur ``counts`` times; empty ones if none does.

    While a code is longer than 32 bits, or would need more tables than pointers can name, the
    rarest exponents are counted once: first two of them, then three, and so on. In the end all
    counts are one, and no code is longer than a byte.
    """
    if not counts:
        empty = np.zeros((1, 256), np.uint8)
        return CodeTables(empty[0].astype(np.uint64), empty[0], Code(0, 0), empty)
    rarest = sorted(counts, key=lambda symbol: (counts[symbol], symbol))
    table, flat = huffman_codes(counts), 1
    while not _fits(table):
        flat += 1
        table = huffman_codes({**counts, **dict.fromkeys(rarest[:flat], 1)})
    end = table.pop(END)
    codes, lengths = np.zeros(256, np.uint64), np.zeros(256, np.uint8)
    for symbol, code in table.items():
        codes[symbol], lengths[symbol] = code.bits, code.length
    luts = np.concatenate([_decoding_tables(table), lengths[None]])
    return CodeTables(codes, lengths, end, luts)


def _fits(table: Mapping[int, Code]) -> bool:
    longest = max(code.length for code in table.values())
    symbols = {symbol: code for symbol, code in table.items() if symbol != END}
    return longest <= _LONGEST and len(_prefixes(symbols)) <= _MOST_TABLES


def _prefixes(table: Mapping[int, Code]) -> list[str]:
    """Return the whole bytes before the last, maybe partial, byte of each code, and theirs.

    A table belongs to each; the shortest first, of equal ones that of the earlier symbol first.
    """
    found = [""]
    for code in table.values():
        text = _text(code)
        for size in range(8, (code.length - 1) // 8 * 8 + 1, 8):
            if text[:size] not in found:
                found.append(text[:size])
    return sorted(found, key=len)


def _decoding_tables(table: Mapping[int, Code]) -> NDArray[np.uint8]:
    """Return ``[tables, 256]``: an exponent or a pointer for each next byte.

    Bytes that begin no code keep the entry before them, as in the files of the reference.
    """
    prefixes = _prefixes(table)
    luts = np.zeros((len(prefixes), 256), np.uint8)
    for row, prefix in enumerate(prefixes):
        entries = {
            int(byte.ljust(8, "0"), 2): value for byte, value in _entries(table, prefixes, prefix)
        }
        value = 0
        for byte in range(256):
            value = entries.get(byte, value)
            luts[row, byte] = value
    return luts


def _entries(table: Mapping[int, Code], prefixes: list[str], prefix: str) -> list[tuple[str, int]]:
    """Return the next bits, at most a byte, of the codes behind a prefix, and what they lead to."""
    found: list[tuple[str, int]] = []
    for symbol, code in table.items():
        text, size = _text(code), len(prefix)
        if not text.startswith(prefix) or len(text) <= size:
            continue
        if len(text) <= size + 8:
            found.append((text[size:], symbol))
        else:
            found.append((text[size : size + 8], 256 - prefixes.index(text[: size + 8])))
    return found


def _text(code: Code) -> str:
    return format(code.bits, f"0{code.length}b")
