"""Codes and scales of a quantized directory, by the names that quantized programs have for them."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.code_pairs import pack_pairs
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import unknown_tensor
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.insertion.codes_of_weight import codes_name, scale_name
from ascendfx.quant_passes.insertion.site_form import HALF_BYTE
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.runtime.checkpoint.checkpoint_source import CheckpointSource
from ascendfx.runtime.checkpoint.decoded_tensor import DecodedTensor


@dataclass(frozen=True, slots=True)
class CodesSource:
    """``<key>#codes``, i8 ``[.., out, in]``, and ``<key>#scale``, f32 ``[.., out]``.

    Int4 is i4x2 ``[.., out, in / 2]``, as products of codes read it, whatever the packing of the
    files; if rows are odd, or parts of the weight have eight bits, it is i8. Nothing is kept.

    Attributes:
        places: Where they are stored, by key of the weight: a stack of rows per slice.
        shapes: Shape of each weight.
    """

    places: Mapping[str, tuple[tuple[DecodedTensor, ...], ...]]
    shapes: Mapping[str, tuple[int, ...]]

    def keys(self) -> Collection[str]:
        """Return the keys of all codes and scales."""
        return [name for key in self.places for name in (codes_name(key), scale_name(key))]

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape."""
        weight, codes = self._find(key)
        *rows, inner = self.shapes[weight]
        if not codes:
            return tuple(rows)
        return (*rows, inner // 2 if self._in_pairs(weight) else inner)

    def dtype(self, key: str) -> DType:
        """Return the element format."""
        weight, codes = self._find(key)
        if not codes:
            return DType.F32
        return DType.I4X2 if self._in_pairs(weight) else DType.I8

    def load(self, key: str) -> NDArray[Any]:
        """Return codes or scales.

        Raises:
            GraphError: `missing-tensor`; `tensor-format`: the codes have zero points; what is
                stored is damaged.
        """
        weight, codes = self._find(key)
        slices = [
            np.concatenate([_part(weight, each, codes=codes) for each in rows])
            for rows in self.places[weight]
        ]
        whole = np.stack(slices) if len(self.shapes[weight]) == 3 else slices[0]
        return pack_pairs(whole).astype(np.uint8) if codes and self._in_pairs(weight) else whole

    def _in_pairs(self, weight: str) -> bool:
        parts = [each for rows in self.places[weight] for each in rows]
        return self.shapes[weight][-1] % 2 == 0 and all(
            each.place.bits <= HALF_BYTE for each in parts
        )

    def _find(self, key: str) -> tuple[str, bool]:
        """Return the weight, and whether its codes are meant."""
        weight, _, part = key.rpartition("#")
        if weight not in self.places or key not in {codes_name(weight), scale_name(weight)}:
            raise unknown_tensor(key)
        return weight, part == codes_name("")[1:]


def codes_of(source: CheckpointSource) -> CodesSource:
    """Return the codes of the weights of which all parts are stored as such.

    Weights whose inputs are not quantized by token are left out: programs compute with their
    numbers.
    """
    stacked = {
        part
        for recipe in source.recipes.values()
        if recipe.packed
        for rows in recipe.parts
        for part in rows
    }
    places: dict[str, tuple[tuple[DecodedTensor, ...], ...]] = {}
    for key, recipe in source.recipes.items():
        if key in stacked:  # experts are read as one
            continue
        found = tuple(
            tuple(each for each in map(source.stored.get, rows) if _is_by_token(each))
            for rows in recipe.parts
        )
        if all(map(len, recipe.parts)) and [*map(len, found)] == [*map(len, recipe.parts)]:
            places[key] = found  # pyright: ignore[reportArgumentType]  # all are decoded ones
    return CodesSource(places, {key: source.shape(key) for key in places})


def _is_by_token(tensor: object) -> bool:
    return isinstance(tensor, DecodedTensor) and tensor.place.by_token


def _part(key: str, tensor: DecodedTensor, *, codes: bool) -> NDArray[Any]:
    weight = tensor.place.load().weight
    if not isinstance(weight, QuantizedTensor) or weight.affine.zero is not None:
        raise GraphError(
            "tensor-format",
            f"the codes of `{key}` in {tensor.file} have zero points",
            hint="quantize it with a symmetric rule",
        )
    return weight.codes if codes else weight.affine.scale.astype(np.float32)[:, 0]
