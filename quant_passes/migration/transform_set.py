"""Transforms that were found, as tensors beside the weights and as metadata to find them again."""

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.quant_passes.formats.format import Float64s
from ascendfx.quant_passes.migration.choices import Choices

_VERSION = 1

How = Mapping[str, str | int | float | None]
"""What a search found: ``method``, and its ``alpha`` and ``beta``, or ``seed`` and ``block``."""


@dataclass(frozen=True, slots=True, eq=False)
class TransformSet:
    """The transforms of a model.

    Attributes:
        choices: Where they are.
        tensors: Factors and rotations by the names that `MigrateOutliers` reads.
        how: How each was found, by the same names; for experts one after the other.
    """

    choices: Choices
    tensors: Mapping[str, Float64s]
    how: Mapping[str, tuple[How, ...]] = field(default_factory=dict[str, tuple[How, ...]])

    def source(self) -> ArraySource:
        """Return them as tensors that are delivered beside those of a checkpoint."""
        return ArraySource(self.tensors)

    def metadata(self) -> str:
        """Return how they were found, as JSON: with the same texts it makes the same transforms."""
        choices = {
            name: getattr(self.choices, name) for name in ("stream", "latent", "values", "up")
        }
        found = {name: [dict(each) for each in how] for name, how in sorted(self.how.items())}
        whole = {"version": _VERSION, "choices": choices, "transforms": found}
        return json.dumps(whole, indent=1)


@dataclass(frozen=True, slots=True)
class FoundBefore:
    """What metadata say of transforms.

    Attributes:
        choices: Where they are.
        how: How each is found.
    """

    choices: Choices
    how: Mapping[str, tuple[How, ...]]


def read_metadata(text: str) -> FoundBefore:
    """Return what `TransformSet.metadata` wrote.

    Raises:
        GraphError: `bad-migration`: it is something else.
    """
    try:
        whole: Any = json.loads(text)
        known = {_VERSION: Choices}[whole["version"]]
        how = {
            str(name): tuple(dict(each) for each in found)
            for name, found in whole["transforms"].items()
        }
        return FoundBefore(known(**whole["choices"]), how)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        reason = f"this is no metadata of transforms: {type(error).__name__} {error}"
        hint = "give the text that `TransformSet.metadata` returned"
        raise GraphError("bad-migration", reason, hint=hint) from error


def as_factors(found: Float64s) -> Float64s:
    """Return factors within the range that the rules are proved for."""
    return np.clip(found, 2.0**-16, 2.0**16)
