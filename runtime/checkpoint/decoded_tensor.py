"""Quantized checkpoints as those that they were made of: every weight in numbers, under its name.

So a model compiles from any form. What programs compute with are the numbers of the codes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.ascend_names import STEM
from ascendfx.quant_passes.checkpoint.weight_place import WeightPlace
from ascendfx.runtime.checkpoint.open_checkpoint import ASCEND, form_of, open_checkpoint
from ascendfx.runtime.checkpoint.read_directory import MODEL, stored_tensors
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor


@dataclass(frozen=True, slots=True)
class DecodedTensor(StoredTensor):
    """A weight that is stored as codes; the file and bytes are those of the codes.

    Attributes:
        place: Reads it.
    """

    place: WeightPlace

    def load(self) -> NDArray[Any]:
        """Return the numbers, in the element format of the model.

        Raises:
            GraphError: What is stored does not fit together, or is no finite number.
        """
        weight = self.place.load().weight
        return weight if isinstance(weight, np.ndarray) else weight.decode(_DTYPES[self.format])


def tensors_of_model(directory: Path, config: Mapping[str, Any]) -> Mapping[str, StoredTensor]:
    """Return where each tensor of a model is, by the names that the model has for them.

    DeepSeek's FP8 stays as it is stored, with its scales: `CheckpointSource` reads these.

    Raises:
        GraphError: As `open_checkpoint`.
    """
    method: Any = config.get("quantization_config")
    plain = not isinstance(method, Mapping) or method.get("quant_method") != "compressed-tensors"
    form = form_of(directory, {} if plain else config)
    if form == "hf":
        return stored_tensors(directory)
    stored = stored_tensors(directory, STEM if form == ASCEND else MODEL)
    dtype = _MODEL_DTYPES.get(str(config.get("dtype") or config.get("torch_dtype")), DType.F32)
    return {
        name: _decoded(stored, name, place, dtype)
        for name, place in open_checkpoint(directory).places.items()
    }


def _decoded(
    stored: Mapping[str, StoredTensor], name: str, place: WeightPlace, dtype: DType
) -> StoredTensor:
    if place.format is not None:
        return stored[name]
    codes = stored[name] if name in stored else stored[f"{name}_packed"]
    kind = np.dtype(dtype.numpy)
    return DecodedTensor(
        codes.file, kind, place.shape, codes.begin, codes.end, codes.stamp, place=place
    )


_MODEL_DTYPES = {"bfloat16": DType.BF16, "float16": DType.F16, "float32": DType.F32}
_DTYPES = {np.dtype(dtype.numpy): dtype for dtype in _MODEL_DTYPES.values()}
