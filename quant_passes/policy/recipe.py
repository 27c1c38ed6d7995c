"""A recipe: an ordered list of lines that say what becomes of the weights of a model."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatchcase
from itertools import pairwise
from pathlib import Path
from typing import Literal

from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm, WeightSpec
from ascendfx.quant_passes.checkpoint.planned_tensor import Scheme


@dataclass(frozen=True, slots=True)
class SitePolicy:
    """What becomes of a weight and of the inputs that it is multiplied by.

    Attributes:
        spec: Format, granularity and rule of its codes.
        algorithm: Chooses the codes.
        activation: Inputs are int8 with a scale per token, int8 with a scale that calibration
            found, or not quantized.
    """

    spec: WeightSpec
    algorithm: WeightAlgorithm
    activation: Literal["dynamic", "static"] | None = None

    @property
    def scheme(self) -> Scheme:
        """What a form of checkpoint has to know of it."""
        rule = self.spec.rule
        return Scheme(
            self.spec.format, self.spec.granularity, self.activation, rule.symmetric, rule.stored
        )

    @property
    def needs(self) -> frozenset[str]:
        """The parts of calibration without which it cannot be done."""
        static = {"absmax"} if self.activation == "static" else set[str]()
        return self.algorithm.needs | static

    def __str__(self) -> str:
        return f"{self.scheme} by {self.algorithm.name}"


@dataclass(frozen=True, slots=True)
class RecipeLine:
    """One line of a recipe.

    Attributes:
        match: Patterns of checkpoint keys, any of which is enough: ``*``, ``?``, ``[abc]``; a star
            stands for dots, too.
        policy: What becomes of the weight; None: it keeps its format.
        draft: Whether it is asked for draft layers only (multi-token prediction). Patterns begin
            with ``*.`` then.
        location: Where it stands.
    """

    match: tuple[str, ...]
    policy: SitePolicy | None
    draft: bool = False
    location: Location = field(default=UNKNOWN, compare=False, repr=False)

    def fits(self, key: str, *, draft: bool) -> bool:
        """Whether the line decides about a weight, if none before it does."""
        asked = draft or not self.draft
        return asked and any(fnmatchcase(key, pattern) for pattern in self.match)


@dataclass(frozen=True, slots=True)
class TextShare:
    """A set of texts for calibration.

    Attributes:
        file: Where it is.
        share: Its part of the tokens, relative to that of the other sets.
    """

    file: Path
    share: float = 1.0


@dataclass(frozen=True, slots=True)
class Calibration:
    """What calibration reads.

    Attributes:
        texts: The sets; none: the recipe needs no data.
        tokens: How many tokens of all sets together.
        length: How many tokens are read at once.
        seed: Chooses the texts.
        inputs: Whether weights see what the weights before them make as they were (``original``),
            or as they have become (``quantized``), so that they make up for what those lost.
    """

    texts: tuple[TextShare, ...] = ()
    tokens: int = 32768
    length: int = 256
    seed: int = 0
    inputs: Literal["original", "quantized"] = "original"


@dataclass(frozen=True, slots=True)
class LatentCache:
    """The int8 latent cache of MLA: one scale per layer; the rotary part stays as it is.

    Attributes:
        keep: Layers whose cache keeps its format.
    """

    keep: frozenset[int] = frozenset()


@dataclass(frozen=True, slots=True)
class Recipe:
    """What becomes of the weights of a model.

    Attributes:
        name: What it is called.
        lines: Asked in order; what none fits keeps its format.
        calibration: What is read for algorithms that need data.
        cache: How the latent cache is stored; None: in the format of the model.
    """

    name: str
    lines: tuple[RecipeLine, ...]
    calibration: Calibration = Calibration()
    cache: LatentCache | None = None

    def policy_of(self, key: str, *, draft: bool = False) -> SitePolicy | None:
        """Return what becomes of a weight; None: it keeps its format.

        Args:
            key: Its name in the checkpoint.
            draft: Whether it belongs to a draft layer.
        """
        line = self.line_of(key, draft=draft)
        return line.policy if line else None

    def line_of(self, key: str, *, draft: bool = False) -> RecipeLine | None:
        """Return the line that decides about a weight."""
        return next((line for line in self.lines if line.fits(key, draft=draft)), None)

    @property
    def needs(self) -> frozenset[str]:
        """The parts of calibration without which it cannot be done."""
        cache = {"absmax"} if self.cache else set[str]()
        found = (line.policy.needs for line in self.lines if line.policy)
        return frozenset[str](cache).union(*found)


def is_draft(key: str, layers: Iterable[int]) -> bool:
    """Whether a key is that of a weight of one of the layers with these numbers."""
    parts = key.split(".")
    return any(
        before == "layers" and part in {str(layer) for layer in layers}
        for before, part in pairwise(parts)
    )


def draft_layers(config: object) -> Sequence[int]:
    """Return the numbers of the draft layers that the content of a ``config.json`` announces."""
    if not isinstance(config, dict):
        return ()
    layers, drafts = (
        config.get(name) or 0 for name in ("num_hidden_layers", "num_nextn_predict_layers")
    )
    if not (isinstance(layers, int) and isinstance(drafts, int)):
        return ()
    return range(layers, layers + drafts)
