"""How parameters of a model are made of several tensors of a checkpoint.

This table is the only place that knows how checkpoints spell the parts of a packed parameter.
Source: transformers 5.24, ``conversion_mapping.py``, entry ``qwen2_moe``, which DeepSeek uses.
"""

import re
from collections.abc import Collection, Iterator
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Packing:
    """A parameter with one slice per expert, each slice a stack of tensors.

    Attributes:
        parameter: Last components of the parameter's key.
        parts: Last components of the keys of the tensors, stacked along the rows in this order;
            ``{}`` is the expert's number.
    """

    parameter: str
    parts: tuple[str, ...]


PACKINGS: tuple[Packing, ...] = (
    Packing("experts.gate_up_proj", ("experts.{}.gate_proj.weight", "experts.{}.up_proj.weight")),
    Packing("experts.down_proj", ("experts.{}.down_proj.weight",)),
)
"""Which parameters are packed."""


def parts_of(key: str, experts: int) -> tuple[tuple[str, ...], ...] | None:
    """Return the keys of the tensors of a packed parameter, per expert; None if it is not packed.

    Args:
        key: The parameter.
        experts: The number of its slices.
    """
    for packing in PACKINGS:
        if key == packing.parameter or key.endswith(f".{packing.parameter}"):
            head = key.removesuffix(packing.parameter)
            return tuple(
                tuple(head + part.format(number) for part in packing.parts)
                for number in range(experts)
            )
    return None


def packed_keys(stored: Collection[str]) -> Iterator[tuple[str, int]]:
    """Yield each parameter that tensors of a checkpoint make up, and its number of slices."""
    for packing in PACKINGS:
        pattern = re.compile("(|.*\\.)" + re.escape(packing.parts[0]).replace("\\{\\}", "(\\d+)"))
        counts: dict[str, int] = {}
        for match in filter(None, map(pattern.fullmatch, stored)):
            head, number = match.groups()
            counts[head] = max(counts.get(head, 0), int(number) + 1)
        for head, count in counts.items():
            yield head + packing.parameter, count
