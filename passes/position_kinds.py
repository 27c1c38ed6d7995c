"""What is known of a value in the analysis of a draft layer: how it depends on positions."""

from dataclasses import dataclass, field

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.ops import Rotary
from ascendfx.passes.rotary_proof import Angle, lanes_of


@dataclass(frozen=True, slots=True)
class Fixed:
    """Depends on parameters and constants alone.

    Attributes:
        number: Equal values have equal numbers.
        elements: Its elements as symbols, if they are few.
    """

    number: int
    elements: Array | None = None


@dataclass(frozen=True, slots=True)
class OfToken:
    """One item per token, computed from the inputs of that token, free of positions."""


@dataclass(frozen=True, slots=True)
class OfChoice:
    """Items of tokens in the order of the experts that they chose; free of positions."""


@dataclass(frozen=True, slots=True)
class OfPosition:
    """Depends on positions.

    Attributes:
        elements: Expressions over the positions ``p0, p1, ..`` of sample tokens and over symbols of
            fixed values.
    """

    elements: Array


@dataclass(frozen=True, slots=True)
class Rotated:
    """Holds results of rotations.

    Attributes:
        labels: Where each element was made, in a `Rotations`; 0 for an element that is free of
            positions.
    """

    labels: Array


@dataclass(frozen=True, slots=True)
class Control:
    """An input that says where entries are: which slots, blocks, requests, rows."""

    name: str


@dataclass(frozen=True, slots=True)
class Cache:
    """Entries of all tokens so far.

    Attributes:
        name: Of the input.
        entry: What this step has written, which by induction is what every step has written; None
            before.
    """

    name: str
    entry: OfToken | Rotated | None = None


Kind = Fixed | OfToken | OfChoice | OfPosition | Rotated | Control | Cache


@dataclass(slots=True)
class Rotations:
    """Every element that a rotation made, by its label.

    Attributes:
        ops: The rotations.
        token: Sample token of each label; -1 for label 0.
        pair: A number that both halves of one rotated pair share.
        half: Which half it is.
        angle: Number of its `Angle` in ``angles``.
        made_by: Place of its operation in ``ops``.
        angles: The distinct columns of tables.
    """

    ops: list[Rotary] = field(default_factory=list[Rotary])
    angles: dict[Angle, int] = field(default_factory=dict[Angle, int])
    token: Array = field(default_factory=lambda: np.array([-1]))
    pair: Array = field(default_factory=lambda: np.array([-1]))
    half: Array = field(default_factory=lambda: np.array([-1]))
    angle: Array = field(default_factory=lambda: np.array([-1]))
    made_by: Array = field(default_factory=lambda: np.array([-1]))

    def add(self, op: Rotary, shape: tuple[int, ...], columns: Array, tokens: Array) -> Array:
        """Return the labels of a new result.

        Args:
            op: The rotation.
            shape: Of the result.
            columns: The angle of each pair, which broadcasts to ``[*shape[:-1], shape[-1] // 2]``.
            tokens: The token of each pair, likewise.
        """
        pairs = (*shape[:-1], shape[-1] // 2)
        lanes = lanes_of(op, pairs[-1])
        numbers = self.pair.max() + 1 + np.arange(int(np.prod(pairs))).reshape(pairs)
        known = [self.angles.setdefault(each, len(self.angles)) for each in columns.flat]
        angle = np.broadcast_to(np.array(known).reshape(columns.shape), pairs)
        first = len(self.token)
        place = np.array(lanes.pair)

        def grown(table: Array, more: Array) -> Array:
            return np.concatenate([table, np.broadcast_to(more, shape).reshape(-1)])

        self.token = grown(self.token, np.broadcast_to(tokens, pairs)[..., place])
        self.pair = grown(self.pair, numbers[..., place])
        self.half = grown(self.half, np.array(lanes.half))
        self.angle = grown(self.angle, angle[..., place])
        self.made_by = grown(self.made_by, np.array(len(self.ops)))
        self.ops.append(op)
        return np.arange(first, len(self.token)).reshape(shape)
