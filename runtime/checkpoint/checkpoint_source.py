"""A directory's tensors under the names and in the formats of a model's parameters."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import dtype_of_array, unknown_tensor
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.quant_passes.checkpoint.block_float8 import SCALE_SUFFIX
from ascendfx.runtime.checkpoint.packed_parameters import packed_keys, parts_of
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor


@dataclass(frozen=True, slots=True)
class _Recipe:
    """How a tensor is made: one stored tensor, or one stack of rows per slice."""

    parts: tuple[tuple[str, ...], ...]
    packed: bool
    type: TensorType


@dataclass(frozen=True)
class CheckpointSource:
    """Reads tensors when asked; nothing is kept.

    Float8 tensors with block scales are delivered as the products (see `scale_blocks`).

    Attributes:
        stored: Where each tensor of the files is.
        recipes: How each delivered tensor is made of them.
        block: Rows and columns of a float8 block.
    """

    stored: Mapping[str, StoredTensor]
    recipes: Mapping[str, _Recipe]
    block: tuple[int, int] = (128, 128)

    def keys(self) -> Collection[str]:
        """Return the keys of all tensors."""
        return self.recipes.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape."""
        return tuple(int(size) for size in self._find(key).type.shape)

    def dtype(self, key: str) -> DType:
        """Return the element format that `load` delivers."""
        return self._find(key).type.dtype

    def load(self, key: str) -> NDArray[Any]:
        """Return the values; a view of the file where no conversion is needed."""
        recipe = self._find(key)
        target = recipe.type.dtype.numpy
        if not recipe.packed:
            return self._stored(recipe.parts[0][0]).astype(target, copy=False)
        packed = np.empty(self.shape(key), target)
        for slice_, keys in zip(packed, recipe.parts, strict=True):
            row = 0
            for part in keys:
                values = self._stored(part)
                slice_[row : row + len(values)] = values
                row += len(values)
        return packed

    def parts(self, key: str) -> list[tuple[str, StoredTensor]]:
        """Return the tensors of the files that a tensor is made of, block scales included."""
        names = [name for part in self._find(key).parts for name in part]
        scales = [name + SCALE_SUFFIX for name in names]
        return [(name, self.stored[name]) for name in (*names, *scales) if name in self.stored]

    def _stored(self, key: str) -> NDArray[Any]:
        return stored_values(self.stored, key, self.block)

    def _find(self, key: str) -> _Recipe:
        if key not in self.recipes:
            raise unknown_tensor(key)
        return self.recipes[key]


def stored_values(
    stored: Mapping[str, StoredTensor], key: str, block: tuple[int, int]
) -> NDArray[Any]:
    """Return the values of a stored tensor, times its block scales if it has any."""
    values, scales = stored[key].load(), stored.get(key + SCALE_SUFFIX)
    return values if scales is None else scale_blocks(values, scales.load(), block)


def scale_blocks(
    values: NDArray[Any], scales: NDArray[Any], block: tuple[int, int]
) -> NDArray[np.float32]:
    """Return ``values * scales``, one scale per block; the last blocks may be cut off.

    Source: DeepSeek-V3 README_WEIGHTS.md, section "FP8 Weight Documentation".
    """
    wide = np.repeat(np.repeat(scales.astype(np.float32), block[0], 0), block[1], 1)
    rows, columns = values.shape
    return values.astype(np.float32) * wide[:rows, :columns]


def source_of_checkpoint(
    stored: Mapping[str, StoredTensor],
    wanted: Mapping[str, TensorType],
    *,
    aliases: Mapping[str, str] | None = None,
    block: tuple[int, int] = (128, 128),
) -> CheckpointSource:
    """Return a source of the wanted tensors, and of every other one under its own name.

    Args:
        stored: The tensors of the files.
        wanted: Type of each parameter of the model, by key.
        aliases: Key of a parameter by each of its other names, under which files may have it.
        block: Rows and columns of a float8 block.

    Raises:
        GraphError: A tensor is missing or has another shape.
    """
    others = {key: name for name, key in (aliases or {}).items() if name in stored}
    recipes = {
        key: _recipe(stored, key if key in stored else others.get(key, key), kind)
        for key, kind in wanted.items()
    }
    for key, tensor in stored.items():
        if key + SCALE_SUFFIX in stored:
            _check_scales(tensor, stored[key + SCALE_SUFFIX], key, block)
    used = {part for recipe in recipes.values() for keys in recipe.parts for part in keys}
    for key, count in packed_keys([key for key in stored if key not in used]):
        recipes.setdefault(key, _unasked(stored, key, count))
    for key, tensor in stored.items():
        if key not in recipes and not key.endswith(SCALE_SUFFIX):
            recipes[key] = _Recipe(((key,),), packed=False, type=_own_type(stored, key, tensor))
    return CheckpointSource(stored, recipes, block)


def _recipe(stored: Mapping[str, StoredTensor], key: str, wanted: TensorType) -> _Recipe:
    shape = tuple(int(size) for size in wanted.shape)
    if key in stored:
        _check_tensor(stored, key, wanted.with_shape(shape))
        return _Recipe(((key,),), packed=False, type=wanted)
    parts = parts_of(key, shape[0]) if len(shape) == 3 else None
    if not parts:
        raise _missing(stored, key)
    rows = shape[1] // len(parts[0])
    for part in (part for keys in parts for part in keys):
        if part not in stored:
            raise _missing(stored, part)
        _check_tensor(stored, part, wanted.with_shape((rows, shape[2])))
    return _Recipe(parts, packed=True, type=wanted)


def _unasked(stored: Mapping[str, StoredTensor], key: str, count: int) -> _Recipe:
    """The recipe of a packed parameter that the model does not have, such as a draft layer's."""
    parts = parts_of(key, count)
    if parts is None or any(part not in stored for keys in parts for part in keys):
        raise _missing(stored, key)
    shapes = [stored[part].shape for part in parts[0]]
    for names in parts:
        for part, shape in zip(names, shapes, strict=True):
            _check_part(part, stored[part], shape, columns=shapes[0][-1:])
    rows = sum(shape[0] for shape in shapes)
    own = _own_type(stored, parts[0][0], stored[parts[0][0]])
    return _Recipe(parts, packed=True, type=own.with_shape((count, rows, shapes[0][1])))


def _check_part(
    key: str, tensor: StoredTensor, first: tuple[int, ...], *, columns: tuple[int, ...]
) -> None:
    """Check the weight of an expert against that of the first one."""
    if tensor.shape != (*first[:1], *columns) or len(tensor.shape) != 2:
        raise GraphError(
            "wrong-shape",
            f"tensor `{key}` of {tensor.file} has shape {list(tensor.shape)}, the other weights of "
            f"experts have {[*first[:1], *columns]}",
            hint="the file holds layers of different models",
        )


def _own_type(stored: Mapping[str, StoredTensor], key: str, tensor: StoredTensor) -> TensorType:
    if key + SCALE_SUFFIX in stored:
        return TensorType(DType.BF16, tensor.shape)
    return TensorType(dtype_of_array(np.empty(0, tensor.format)), tensor.shape)


def _check_tensor(stored: Mapping[str, StoredTensor], key: str, wanted: TensorType) -> None:
    tensor = stored[key]
    if tensor.shape != wanted.shape:
        raise GraphError(
            "wrong-shape",
            f"tensor `{key}` of {tensor.file} has shape {list(tensor.shape)}, the model needs "
            f"{list(wanted.shape)}",
            hint="config.json and the weights belong to different models",
        )
    if (
        tensor.format.itemsize == 1
        and tensor.format.kind not in "bi"
        and key + SCALE_SUFFIX not in stored
    ):
        raise GraphError(
            "tensor-format",
            f"tensor `{key}` of {tensor.file} is in {tensor.format} without `{key}{SCALE_SUFFIX}`",
            hint="float8 weights need their block scales",
        )
    if tensor.format.kind in "biu" and wanted.dtype.is_float:
        raise GraphError(
            "tensor-format",
            f"tensor `{key}` of {tensor.file} is in {tensor.format}, the model needs fractions",
            hint="integer weights of a quantized checkpoint must be expanded first",
        )


def _check_scales(
    tensor: StoredTensor, scales: StoredTensor, key: str, block: tuple[int, int]
) -> None:
    blocks = tuple(-(-size // each) for size, each in zip(tensor.shape, block, strict=False))
    if len(tensor.shape) != 2 or scales.shape != blocks:
        raise GraphError(
            "wrong-shape",
            f"tensor `{key}{SCALE_SUFFIX}` of {scales.file} has shape {list(scales.shape)}, "
            f"`{key}` of shape {list(tensor.shape)} has {list(blocks)} blocks of {list(block)}",
            hint="`quantization_config` of config.json and the weights belong to different models",
        )


def _missing(stored: Mapping[str, StoredTensor], key: str) -> GraphError:
    files = sorted({tensor.file for tensor in stored.values()})
    where = str(files[0]) if len(files) == 1 else f"the {len(files)} files of {files[0].parent}"
    return GraphError(
        "missing-tensor",
        f"tensor `{key}` is not in {where}",
        hint="config.json and the weights belong to different models, or a file is missing",
    )
