"""A recipe and the weights of a model: the plan of a checkpoint, each weight made in its turn."""

from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field, replace
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import TensorSource
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.remark import Remark
from ascendfx.quant_passes.algorithms.weight_algorithm import QuantizedWeight
from ascendfx.quant_passes.checkpoint.ascend_names import (
    CACHE_SCALE,
    CACHE_ZERO,
    EMBEDDING,
    LATENT_READER,
)
from ascendfx.quant_passes.checkpoint.planned_tensor import Plan, PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import Activation, SavedWeight, StaticInputs
from ascendfx.quant_passes.policy.recipe import Recipe, RecipeLine, SitePolicy, is_draft
from ascendfx.quant_passes.statistics import InputStatistics

StatisticsOf = Callable[[str], InputStatistics | None]
"""What calibration knows of the inputs of a weight, by its name; None: nothing."""
MadeBefore = Callable[[str], QuantizedWeight | None]
"""The weights that somebody made before, by name."""

_HEAD, _TAIL = -1, 1 << 62
_LARGEST = 127


@dataclass(frozen=True, slots=True)
class Quantization:
    """What is to be made of the weights of a model.

    Attributes:
        recipe: What becomes of which weight.
        source: The weights, under the names of a checkpoint: experts one by one.
        drafts: Numbers of the draft layers.
        statistics: What calibration knows; asked when the turn of a weight comes, layer by layer.
        made: Weights that calibration made on its way; None: not this one.
        remarks: What algorithms say of weights that were made, by name.
    """

    recipe: Recipe
    source: TensorSource
    drafts: Collection[int] = ()
    statistics: StatisticsOf = field(default=lambda _key: None)
    made: MadeBefore = field(default=lambda _key: None)
    remarks: dict[str, tuple[Remark, ...]] = field(default_factory=dict[str, tuple[Remark, ...]])

    def plan(self) -> Plan:
        """Return all tensors of the result, layer by layer.

        Raises:
            GraphError: `nothing-quantized`; `bad-recipe`: a line fits what is no weight; a
                granularity that does not fit a weight.
        """
        tensors = [self._planned(key) for key in sorted(self.source.keys(), key=layer_of)]
        if all(tensor.scheme is None for tensor in tensors):
            keys = ", ".join(f"`{key}`" for key in list(self.source.keys())[:3])
            reason = f"recipe `{self.recipe.name}` fits no weight of the model"
            raise GraphError("nothing-quantized", reason, hint=f"its weights are {keys}, ...")
        return tuple(sorted((*tensors, *self._cache()), key=lambda each: layer_of(each.name)))

    def idle_lines(self) -> tuple[RecipeLine, ...]:
        """Return the lines that decide about no weight."""
        decided = {
            id(self.recipe.line_of(key, draft=self._is_draft(key)))
            for key in self.source.keys()  # noqa: SIM118  # not a mapping
        }
        return tuple(line for line in self.recipe.lines if id(line) not in decided)

    def _planned(self, key: str) -> PlannedTensor:
        shape = self.source.shape(key)
        line = self.recipe.line_of(key, draft=self._is_draft(key))
        policy = line.policy if line else None
        dtype = self.source.dtype(key)
        if line is None or policy is None:
            return PlannedTensor(key, shape, dtype, None, lambda: self._kept(key))
        if len(shape) != 2 or not dtype.is_float:
            reason = f"the line fits `{key}` {list(shape)}, which is no weight [out, in]"
            hint = "make its pattern narrower, or put a line with `keep: true` before it"
            raise GraphError("bad-recipe", reason, line.location, hint=hint)
        try:
            policy.spec.granularity.scale_shape(shape)
        except GraphError as error:
            note = f"of `{key}`"
            raise replace(error, location=line.location, notes=(*error.notes, note)) from error
        return PlannedTensor(key, shape, dtype, policy.scheme, lambda: self._made(key, policy))

    def _kept(self, key: str) -> SavedWeight:
        return SavedWeight(self.source.load(key))

    def _made(self, key: str, policy: SitePolicy) -> SavedWeight:
        made = self.made(key)
        inputs = self.statistics(key) if policy.needs else None
        if made is None:
            made = quantized_weight(key, self.source.load(key), policy, inputs)
        if made.remarks:
            self.remarks[key] = made.remarks
        activation: Activation = "dynamic" if policy.activation == "dynamic" else None
        if policy.activation == "static":
            activation = static_inputs(key, inputs)
        return SavedWeight(made.tensor, activation)

    def _cache(self) -> Iterator[PlannedTensor]:
        """Yield scale and zero point of the latent cache of each layer that is not kept."""
        if self.recipe.cache is None:
            return
        for key in self.source.keys():  # noqa: SIM118  # not a mapping
            kept = layer_of(key) in self.recipe.cache.keep or self._is_draft(key)
            if not key.endswith(LATENT_READER) or kept:
                continue
            head = key.removesuffix(LATENT_READER)
            scale = PlannedTensor(
                head + CACHE_SCALE, (1, 1), DType.F32, None, lambda key=key: self._scale(key)
            )
            zero = SavedWeight(np.zeros((1, 1), np.float32))
            yield scale
            yield PlannedTensor(head + CACHE_ZERO, (1, 1), DType.F32, None, lambda zero=zero: zero)

    def _scale(self, key: str) -> SavedWeight:
        inputs = _required(key, self.statistics(key), "the latent cache in int8")
        largest = float(inputs.absmax.max()) or _LARGEST
        return SavedWeight(np.array([[largest / _LARGEST]], np.float32))

    def _is_draft(self, key: str) -> bool:
        return is_draft(key, self.drafts)


def quantized_weight(
    key: str, weight: NDArray[Any], policy: SitePolicy, inputs: InputStatistics | None
) -> QuantizedWeight:
    """Return the codes of a weight.

    Raises:
        GraphError: What its algorithm raises, with its name.
    """
    try:
        return policy.algorithm.quantize(weight, policy.spec, inputs)
    except GraphError as error:
        raise replace(error, notes=(*error.notes, f"the weight is `{key}`")) from error


def static_inputs(key: str, inputs: InputStatistics | None) -> StaticInputs:
    """Return the fixed scale of int8 inputs whose range calibration found; it contains 0.

    Raises:
        GraphError: `statistics-missing`: no token reached the weight.
    """
    known = _required(key, inputs, "static inputs")
    low, high = min(0.0, float(known.minimum.min())), max(0.0, float(known.maximum.max()))
    if low == high:
        return StaticInputs(1.0)
    scale = float(np.float32((high - low) / 255))
    return StaticInputs(scale, int(np.clip(np.rint(-low / scale) - 128, -128, 127)))


def layer_of(key: str) -> int:
    """Return the number of the layer of a weight; embeddings are before, all others behind."""
    parts = key.split(".")
    for before, part in pairwise(parts):
        if before == "layers" and part.isdecimal():
            return int(part)
    return _HEAD if EMBEDDING in parts else _TAIL


def _required(key: str, inputs: InputStatistics | None, what: str) -> InputStatistics:
    if inputs is None or not inputs.tokens:
        seen = "calibration has read no texts" if inputs is None else "no token reached it"
        reason = f"{what}: nothing is known of the inputs of `{key}`: {seen}"
        hint = "give texts for calibration, or more of them; dynamic inputs need none"
        raise GraphError("statistics-missing", reason, hint=hint)
    return inputs
