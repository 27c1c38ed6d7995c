"""Run a serving form on rows of some texts, each on blocks of its own."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.step_names import LOGIT_ROWS
from ascendfx.passes.serving_steps import cache_names, caches_after
from ascendfx.passes.verification.run_with_noise import (
    Noisy,
    NoisyRunner,
    concatenated,
    undisturbed,
)


@dataclass(frozen=True)
class Piece:
    """Rows that continue a text.

    Attributes:
        ids: Their tokens.
        first: Position of the first row.
        blocks: Of the caches, those that hold the text; they are copied.
        given: Further inputs of the rows.
    """

    ids: Sequence[int]
    first: int
    blocks: Array
    given: Mapping[str, Noisy] = field(default_factory=dict[str, Noisy])

    @property
    def end(self) -> int:
        """The position behind the last row."""
        return self.first + len(self.ids)


@dataclass(frozen=True)
class Served:
    """What a serving form made of pieces.

    Attributes:
        logits: Behind the last row of each piece, ``[pieces, vocab]``.
        states: Hidden states, in the order of the results, of all rows of each piece.
        caches: By name, with as many blocks for each piece.
        blocks: Blocks of a piece.
    """

    logits: Noisy
    states: tuple[tuple[Noisy, ...], ...]
    caches: Mapping[str, Noisy]
    blocks: int

    def entries(self, name: str, piece: int, positions: slice) -> Noisy:
        """Return what a cache holds for some positions of a piece."""
        own = slice(piece * self.blocks, (piece + 1) * self.blocks)
        clean, noisy = (
            each[own].reshape(-1, *each.shape[2:])[positions] for each in self.caches[name]
        )
        return clean, noisy


def serve(
    program: Program,
    tensors: Mapping[str, Array],
    pieces: Sequence[Piece],
    caches: Mapping[str, Array],
    *,
    noise: bool = True,
) -> Served:
    """Run one step.

    Args:
        program: In serving form.
        tensors: The checkpoint by key.
        pieces: With equally many blocks.
        caches: Of the program, by name.
        noise: Whether to run with noise, too.
    """
    counts = [len(piece.ids) for piece in pieces]
    blocks = len(pieces[0].blocks)
    origin = np.concatenate([piece.blocks for piece in pieces])
    names = cache_names(program)
    block = next((caches[name].shape[1] for name in names), 1)
    positions = np.concatenate([np.arange(piece.first, piece.end) for piece in pieces])
    owner = np.repeat(np.arange(len(pieces)), counts)
    inputs = {
        "token_ids": undisturbed(np.concatenate([np.asarray(piece.ids) for piece in pieces])),
        "positions": undisturbed(positions),
        "slots": undisturbed(owner * blocks * block + positions),
        "row_request": undisturbed(owner),
        "block_table": undisturbed(np.arange(origin.size).reshape(len(pieces), blocks)),
        LOGIT_ROWS: undisturbed(np.cumsum(counts) - 1),
    }
    inputs |= {
        name: concatenated([piece.given[name] for piece in pieces]) for name in pieces[0].given
    }
    inputs |= {name: undisturbed(caches[name][origin]) for name in names}
    sizes = {
        "rows": positions.size,
        "requests": len(pieces),
        "context": max(piece.end for piece in pieces),
        "blocks": origin.size,
        "table_blocks": blocks,
    }
    outputs = NoisyRunner(program, tensors, sizes, noise=noise).entry(inputs).outputs
    states = outputs[2 : len(outputs) - len(names)]
    ends = np.cumsum(counts)[:-1]
    return Served(
        outputs[1],
        tuple(
            tuple(zip(*(np.split(each, ends) for each in state), strict=True)) for state in states
        ),
        caches_after(program, outputs),
        blocks,
    )
