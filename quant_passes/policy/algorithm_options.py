"""Options of weight algorithms as recipes have them: by the names of their fields."""

from dataclasses import fields, is_dataclass, replace
from typing import Any

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.registry import algorithm_named
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightAlgorithm
from ascendfx.quant_passes.policy.yaml_fields import YamlFields, YamlValue

_NAME = "algorithm"


def algorithm_of(value: YamlValue, options: YamlValue | None = None) -> WeightAlgorithm:
    """Return the algorithm that a value names.

    Args:
        value: Its name.
        options: Its options by name; one that is an algorithm is a name, or a name with options:
            ``{algorithm: ssz, weighted: true}``.

    Raises:
        GraphError: `algorithm-not-known`; `bad-recipe`: an option that it does not have, or a value
            of another kind; `bad-algorithm`.
    """
    algorithm = _named(value)
    if options is None:
        return algorithm
    return _with(algorithm, options.fields(_options(algorithm)), options)


def _nested(value: YamlValue) -> WeightAlgorithm:
    """Return an algorithm that is an option of another one."""
    if value.is_scalar:
        return _named(value)
    name = value.fields().need(_NAME)
    algorithm = _named(name)
    return _with(algorithm, value.fields((_NAME, *_options(algorithm))), value)


def _named(value: YamlValue) -> WeightAlgorithm:
    try:
        return algorithm_named(value.text())
    except GraphError as error:
        raise _placed(error, value) from error


def _with(algorithm: WeightAlgorithm, given: YamlFields, place: YamlValue) -> WeightAlgorithm:
    usual: Any = algorithm
    changed = {
        name: _option(given.need(name), getattr(usual, name)) for name in given if name != _NAME
    }
    try:
        return replace(usual, **changed)
    except GraphError as error:
        raise _placed(error, place) from error


def _options(algorithm: WeightAlgorithm) -> tuple[str, ...]:
    made: Any = algorithm
    return tuple(each.name for each in fields(made) if each.init) if is_dataclass(made) else ()


def _option(value: YamlValue, usual: object) -> object:
    """Return an option, which is of the kind of its usual value."""
    match usual:
        case bool():
            return value.flag()
        case DType():
            names = {each.value: each for each in DType if each.is_float}
            return names[value.chosen(names)]
        case int():
            return value.count()
        case float():
            return value.number()
        case str():
            return value.text()
        case tuple():
            return tuple(_nested(each) for each in value.items())
        case _:
            return _nested(value)


def _placed(error: GraphError, value: YamlValue) -> GraphError:
    return replace(error, location=value.location)
