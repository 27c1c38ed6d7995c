"""Make a weight of a plan from the checkpoint, and refuse numbers that no kernel can use."""

from dataclasses import replace
from typing import Any

import ml_dtypes
import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.weight_spec import WeightSpec, evaluate_weight
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import LayeredSource, TensorsByKey, TensorSource
from ascendfx.runtime.checkpoint.checkpoint_source import CheckpointSource
from ascendfx.runtime.number_range import first_beyond, first_not_finite

_LARGEST_FACTOR = 1.8e19
"""Squares of larger numbers overflow in f32, in which kernels compute: 3.4e38 is the largest."""


def materialise_weight(spec: WeightSpec, source: TensorSource) -> NDArray[Any]:
    """Return the weight as it lies in device memory.

    Raises:
        GraphError: A number of it is infinite or NaN, because the checkpoint holds it or because
            it is too large for the format; or a matrix is so large that every norm overflows.
    """
    with np.errstate(over="ignore", invalid="ignore"):  # reported below, with its place
        weight = evaluate_weight(spec, TensorsByKey(source))
        limit = _LARGEST_FACTOR if len(spec.shape) > 1 else _largest(spec)
        if not spec.dtype.is_float or first_beyond(weight, limit) is None:
            return weight
        plain = evaluate_weight(replace(spec, layout="nd"), TensorsByKey(source))
    for key in spec.keys:
        check_finite(source, key)
    place, name = first_not_finite(plain), spec.name.partition("@")[0]
    if place is None:
        raise GraphError(
            code="weight-range",
            reason=f"weight `{name}` is {_found(plain, first_beyond(plain, limit))}; kernels "
            f"compute in f32, where products of numbers beyond {_LARGEST_FACTOR:g} overflow",
            hint='check the weights; executor="reference" computes in float64',
        )
    raise GraphError(
        code="weight-range",
        reason=f"weight `{name}`, made of {_names(spec.keys)}, is {_found(plain, place)} in "
        f"{spec.dtype.value}; the tensors of the checkpoint are finite",
        hint="the numbers are too large for this format; check that config.json and the weights "
        "belong together",
    )


def check_finite(source: TensorSource, key: str) -> None:
    """Check that a tensor holds nothing but numbers.

    Raises:
        GraphError: It holds an infinity or NaN; the message has tensor, file and first place.
    """
    for name, where, values in _stored(source, key):
        place = first_not_finite(values)
        if place is not None:
            raise GraphError(
                code="not-finite",
                reason=f"tensor `{name}`{where} is {_found(values, place)}",
                hint="the weights are damaged, or come from a training that diverged; "
                "get them again"
                if where
                else "it is of no file: if the model's constructor computes it, a field of its "
                "configuration is wrong, such as `rope_theta`; else check the module's own weights",
            )


def _stored(source: TensorSource, key: str) -> list[tuple[str, str, NDArray[Any]]]:
    """Return name, file and values of each tensor that the tensor ``key`` is made of."""
    if isinstance(source, LayeredSource):
        return _stored(next(each for each in source.sources if key in each.keys()), key)  # noqa: SIM118
    if isinstance(source, CheckpointSource):
        return [(name, f" of {each.file}", each.load()) for name, each in source.parts(key)]
    return [(key, "", source.load(key))]


def _found(values: NDArray[Any], place: tuple[int, ...] | None) -> str:
    if place is None:
        raise AssertionError("there is no such number")
    return f"{float(values[place])} at {list(place)}"


def _names(keys: tuple[str, ...]) -> str:
    first = ", ".join(f"`{key}`" for key in keys[:2])
    return f"{first} and {len(keys) - 2} more tensors" if len(keys) > 2 else first


def _largest(spec: WeightSpec) -> float:
    return float(ml_dtypes.finfo(spec.dtype.numpy).max)
