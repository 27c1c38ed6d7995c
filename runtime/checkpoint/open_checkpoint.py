"""A checkpoint directory of any form as named weights that are read one at a time."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.capture.config_fields import block_in
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import dtype_of_array, unknown_tensor
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint import compressed_names
from ascendfx.quant_passes.checkpoint.ascend_names import DESCRIPTION, STEM
from ascendfx.quant_passes.checkpoint.ascend_places import ascend_places
from ascendfx.quant_passes.checkpoint.block_float8 import block_float8_places
from ascendfx.quant_passes.checkpoint.compressed_places import compressed_places
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.checkpoint.weight_place import WeightPlace
from ascendfx.runtime.checkpoint.present_file import is_present
from ascendfx.runtime.checkpoint.read_directory import (
    CONFIG,
    MODEL,
    read_config,
    read_json,
    stored_tensors,
)

ASCEND = "ascend"


@dataclass(frozen=True, slots=True)
class Checkpoint:
    """A `TensorSource` of the numbers of each weight, whatever form they are stored in.

    Names are those of the model, as in its checkpoint in bfloat16: what belongs to a quantized
    weight, such as scales, has no name here. Nothing is kept after a weight is read.

    Attributes:
        directory: Where it is.
        form: ``hf`` (numbers, or DeepSeek's FP8 blocks), ``ascend`` or ``compressed-tensors``.
        config: The content of ``config.json``.
        places: Where each weight is.
        delivered: Element format of `load` for weights that are stored as codes.
    """

    directory: Path
    form: str
    config: Mapping[str, Any]
    places: Mapping[str, WeightPlace]
    delivered: DType = DType.F32

    def keys(self) -> Collection[str]:
        """Return the names of all weights."""
        return self.places.keys()

    def shape(self, key: str) -> tuple[int, ...]:
        """Return the shape of a weight."""
        return self._find(key).shape

    def dtype(self, key: str) -> DType:
        """Return the element format that `load` delivers."""
        form = self._find(key).format
        return self.delivered if form is None else dtype_of_array(np.empty(0, form))

    def is_quantized(self, key: str) -> bool:
        """Whether a weight is stored as codes."""
        return self._find(key).format is None

    def load(self, key: str) -> NDArray[Any]:
        """Return the numbers of a weight; a view of the file where they are stored as such.

        Raises:
            GraphError: `missing-tensor`; `values-not-finite`; `bad-scale`; what is stored does not
                fit together.
        """
        weight = self.weight(key).weight
        return weight if isinstance(weight, np.ndarray) else weight.decode(self.delivered)

    def weight(self, key: str) -> SavedWeight:
        """Return a weight as it is stored: its codes and scales, and how inputs are quantized.

        Raises:
            GraphError: As `load`.
        """
        return self._find(key).load()

    def _find(self, key: str) -> WeightPlace:
        if key not in self.places:
            raise unknown_tensor(key)
        return self.places[key]


def open_checkpoint(directory: Path, *, delivered: DType = DType.F32) -> Checkpoint:
    """Return the weights of a directory; only headers and JSON files are read.

    Args:
        directory: In the Hugging Face layout.
        delivered: Element format of the numbers of quantized weights.

    Raises:
        GraphError: There is no checkpoint, one of an unknown form, or its tensors do not fit
            together.
    """
    config = read_config(directory)
    form = form_of(directory, config)
    stored = stored_tensors(directory, STEM if form == ASCEND else MODEL)
    match form:
        case "ascend":
            places = ascend_places(stored, read_json(directory / DESCRIPTION))
        case "compressed-tensors":
            places = compressed_places(stored, config["quantization_config"])
        case _:
            places = block_float8_places(stored, block_in(config, str(directory / CONFIG)))
    return Checkpoint(directory, form, config, places, delivered)


def form_of(directory: Path, config: Mapping[str, Any]) -> str:
    """Return the form of a directory: ``hf``, ``ascend`` or ``compressed-tensors``.

    Raises:
        GraphError: `unknown-quantization`.
    """
    if is_present(directory / DESCRIPTION):
        return ASCEND
    quantization: Any = config.get("quantization_config")
    method = quantization.get("quant_method") if isinstance(quantization, Mapping) else None
    if method in {None, "fp8"}:
        return "hf"
    if method == compressed_names.METHOD:
        return compressed_names.METHOD
    raise GraphError(
        "unknown-quantization",
        f"`quantization_config.quant_method` of {directory / CONFIG} is {method!r}",
        hint="read are numbers, fp8, compressed-tensors, and directories of msModelSlim",
    )
