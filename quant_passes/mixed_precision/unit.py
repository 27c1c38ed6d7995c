"""What is chosen at once: weights that share a decision, and what may become of them."""

from collections.abc import Sequence
from dataclasses import dataclass

from ascendfx.quant_passes.policy.recipe import SitePolicy


@dataclass(frozen=True, slots=True)
class Piece:
    """A matrix ``[out, in]`` by which a program projects.

    Attributes:
        site: Key of the weight in the program.
        expert: Its place among stacked experts; 0 of a weight alone.
        names: Its names in the checkpoint: parts of equal size, one above the other.
        shape: ``[out, in]``.
        experts: Matrices that share the key of the site.
    """

    site: str
    expert: int
    names: tuple[str, ...]
    shape: tuple[int, int]
    experts: int = 1

    @property
    def part_shape(self) -> tuple[int, int]:
        """Shape of each of its tensors in the checkpoint."""
        return self.shape[0] // len(self.names), self.shape[1]


@dataclass(frozen=True, slots=True)
class Choice:
    """What may become of the weights of a unit.

    Attributes:
        recipes: The recipes that say so.
        policies: Of each name of the unit, in order; None: the weight keeps its format.
    """

    recipes: tuple[str, ...]
    policies: tuple[SitePolicy | None, ...]

    @property
    def name(self) -> str:
        """The first recipe that says so."""
        return self.recipes[0]


@dataclass(frozen=True, slots=True)
class Unit:
    """Weights about which one decision is made.

    Attributes:
        name: The first of their names in the checkpoint.
        pieces: The matrices, in the order of the program.
        choices: What may become of them, all different.
    """

    name: str
    pieces: tuple[Piece, ...]
    choices: tuple[Choice, ...]

    @property
    def names(self) -> tuple[str, ...]:
        """The names of its weights in the checkpoint."""
        return tuple(name for piece in self.pieces for name in piece.names)

    @property
    def sites(self) -> tuple[str, ...]:
        """The keys in the program."""
        return tuple(dict.fromkeys(piece.site for piece in self.pieces))

    def policies_of(self, choice: Choice, piece: Piece) -> Sequence[SitePolicy | None]:
        """Return what becomes of the parts of a piece."""
        found = dict(zip(self.names, choice.policies, strict=True))
        return tuple(found[name] for name in piece.names)
