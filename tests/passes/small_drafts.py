"""Small draft layers that may run at shifted positions, and those that may not, with the reason."""

import torch
from torch import Tensor, nn

from tests.passes.draft_modules import (
    HEADS,
    HIDDEN,
    LANES,
    SmallDraft,
    rotate_halves,
    rotate_neighbours,
)


class Neighbours(SmallDraft):
    """Pairs of neighbours."""

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        return rotate_neighbours(q, *self.tables(positions))

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        return rotate_neighbours(k, *self.tables(positions))


class Partial(SmallDraft):
    """Half of the lanes are rotated."""

    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions)[:, : LANES // 4]

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        first = rotate_halves(q[..., : LANES // 2], *self.tables(positions))
        return torch.cat([first, q[..., LANES // 2 :]], -1)

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        return self.rotate_query(k, positions)


class Scaled(SmallDraft):
    """YaRN: other frequencies, and a factor of both tables."""

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        ramp = (torch.arange(LANES // 2) / 3).clamp(0, 1)
        mixed = self.frequencies / 40 * ramp + self.frequencies * (1 - ramp)
        angles = positions[:, None] * mixed
        return angles.cos() * 1.37, angles.sin() * 1.37


class Moved(SmallDraft):
    """Positions count from one, times two."""

    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(2 * positions + 1)


class NoRotation(SmallDraft):
    """Sees no position but through causality."""

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        return q

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        return k


class NegativeAngles(SmallDraft):
    """Rotates the other way round."""

    def angles(self, positions: Tensor) -> Tensor:
        return -super().angles(positions)


LICENSED = (SmallDraft, Neighbours, Partial, Scaled, Moved, NoRotation, NegativeAngles)


class LearnedPositions(SmallDraft):
    """Absolute: an embedding of positions."""

    def __init__(self) -> None:
        super().__init__()
        self.places = nn.Embedding(64, HIDDEN)

    def start(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.places(positions)


class SlicedPositions(LearnedPositions):
    """The same, taken as a part of the parameter."""

    def start(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + self.places.weight[: x.shape[1]]


class SinusoidalPositions(SmallDraft):
    """Absolute: waves added to what tokens hold."""

    def start(self, x: Tensor, positions: Tensor) -> Tensor:
        angles = self.angles(positions)
        return x + torch.cat([angles.cos(), angles.sin()] * 2, -1)


class ZeroAtFirst(SmallDraft):
    """What engines do that keep row 0: no embedding at position 0."""

    def start(self, x: Tensor, positions: Tensor) -> Tensor:
        return torch.where(positions[:, None] == 0, torch.zeros(()), x)


class Temperature(SmallDraft):
    """Llama 4: queries grow with the position."""

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        scale = torch.log(positions / 8 + 1) * 0.1 + 1
        return super().rotate_query(q * scale[:, None], positions)


class LogN(SmallDraft):
    """Scores grow with the logarithm of the position."""

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        return super().rotate_query(q, positions) * torch.log(positions[:, None] + 2.0)


class OnlyQuery(NoRotation):
    """Only one side is rotated."""

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        return rotate_halves(q, *self.tables(positions))


class OnlyKey(NoRotation):
    """Only one side is rotated."""

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        return rotate_halves(k, *self.tables(positions))


class OtherFrequencies(SmallDraft):
    """Keys are rotated by slower angles."""

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        angles = positions[:, None] * self.slower
        return rotate_halves(k, angles.cos(), angles.sin())


class OtherDirection(SmallDraft):
    """Keys are rotated the other way round: scores see the sum of positions."""

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        cos, sin = self.tables(positions)
        return rotate_halves(k, cos, -sin)


class OtherPairs(SmallDraft):
    """Keys are rotated in other pairs of lanes."""

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        return rotate_neighbours(k, *self.tables(positions))


class RotatedValues(SmallDraft):
    """Values are rotated, too."""

    def turn_value(self, v: Tensor, positions: Tensor) -> Tensor:
        return rotate_halves(v, *self.tables(positions))


class HalfPairs(SmallDraft):
    """Second halves of pairs are left out of scores."""

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        return super().rotate_query(q, positions)[..., : LANES // 2]

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        return super().rotate_key(k, positions)[..., : LANES // 2]


class LanesScaled(SmallDraft):
    """Rotated lanes are weighed."""

    def __init__(self) -> None:
        super().__init__()
        self.weights = nn.Parameter(torch.ones(LANES))

    def rotate_query(self, q: Tensor, positions: Tensor) -> Tensor:
        return super().rotate_query(q, positions) * self.weights


class StoredTables(SmallDraft):
    """Tables are looked up in buffers, which may hold anything."""

    def __init__(self) -> None:
        super().__init__()
        angles = torch.arange(64)[:, None] * self.frequencies
        self.cosines = nn.Buffer(angles.cos())
        self.sines = nn.Buffer(angles.sin())

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        return self.cosines[positions], self.sines[positions]


class SquaredAngles(SmallDraft):
    """Angles are not linear in the position."""

    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions * positions)


class Decaying(SmallDraft):
    """Tables decay with the position, as those of xPos."""

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = super().tables(positions)
        decay = positions[:, None] * 0.01 + 1.0
        return cos * decay, sin * decay


class UnevenTables(SmallDraft):
    """The sines have another factor than the cosines."""

    def tables(self, positions: Tensor) -> tuple[Tensor, Tensor]:
        cos, sin = super().tables(positions)
        return cos * 1.5, sin


class RoundedPositions(SmallDraft):
    """Positions beyond 256 are rounded."""

    def angles(self, positions: Tensor) -> Tensor:
        return super().angles(positions.bfloat16())


class LinearBias(NoRotation):
    """ALiBi: a bias of scores. No shift changes it, but this is not what was proved."""

    def mask(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        distance = (positions[None] - positions[:, None]).float()
        return super().mask(token_ids, positions) + 0.5 * distance


class SeesAll(SmallDraft):
    """Not causal."""

    def mask(self, token_ids: Tensor, positions: Tensor) -> Tensor:
        return torch.zeros(())


class PreviousToken(SmallDraft):
    """Every token reads the one before; the first one reads zeros."""

    def start(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + torch.cat([torch.zeros_like(x[:, :1]), x[:, :-1]], 1)


class CountsTokens(SmallDraft):
    """Positions are counted by a sum."""

    def start(self, x: Tensor, positions: Tensor) -> Tensor:
        return x + torch.cumsum(torch.ones_like(x), 1)


class OfAllTokens(SmallDraft):
    """Every token reads the mean of all."""

    def start(self, x: Tensor, positions: Tensor) -> Tensor:
        return x - x.mean(1, keepdim=True)


class HeadsMixed(SmallDraft):
    """Heads are exchanged after the rotation, with tokens of other positions."""

    def rotate_key(self, k: Tensor, positions: Tensor) -> Tensor:
        rotated = super().rotate_key(k, positions)
        return rotated.reshape(k.shape[0], -1, HEADS, LANES).transpose(1, 2)


REFUSED: dict[type[SmallDraft], tuple[str, str]] = {
    LearnedPositions: ("draft-position", "gather_rows"),
    SlicedPositions: ("draft-position", "cut here"),
    SinusoidalPositions: ("draft-position", "`add` together with what tokens hold"),
    ZeroAtFirst: ("draft-position", "`equal`"),
    Temperature: ("draft-position", "`log`"),
    LogN: ("draft-position", "`log`"),
    OnlyQuery: ("draft-rotary", "lane of the query"),
    OnlyKey: ("draft-rotary", "lane of the key"),
    OtherFrequencies: ("draft-rotary", "different tables"),
    OtherDirection: ("draft-rotary", "different tables"),
    OtherPairs: ("draft-rotary", "different tables"),
    RotatedValues: ("draft-rotary", "values"),
    HalfPairs: ("draft-position", "`multiply` together with"),
    LanesScaled: ("draft-rotary", "`multiply`"),
    StoredTables: ("draft-position", "gather_rows"),
    SquaredAngles: ("draft-rotary", "position * frequency"),
    Decaying: ("draft-rotary", "position * frequency"),
    UnevenTables: ("draft-rotary", "position * frequency"),
    RoundedPositions: ("draft-position", "bf16"),
    LinearBias: ("draft-position", "compares tokens"),
    SeesAll: ("draft-mixes-tokens", "compares tokens"),
    PreviousToken: ("draft-mixes-tokens", "axis of tokens"),
    CountsTokens: ("draft-mixes-tokens", "axis of tokens"),
    OfAllTokens: ("draft-mixes-tokens", "axis of tokens"),
    HeadsMixed: ("draft-mixes-tokens", "token to token"),
}
"""Code and a part of the message."""
