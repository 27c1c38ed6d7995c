"""How parameters are called that hold transforms, and those that took them in."""

from ascendfx.passes.rotation_parameter import is_rotation_name

_FACTORS = "#factors"
_MIGRATED = "#migrated"


def factors_name(place: str) -> str:
    """Return the name of the factors of the channels at a place."""
    return f"{place}{_FACTORS}"


def migrated_name(parameter: str, count: int = 1) -> str:
    """Return the name of what a parameter becomes when transforms are folded into it.

    Args:
        parameter: Its name.
        count: Which of several: a tied weight becomes a different one for each reader.
    """
    return f"{parameter}{_MIGRATED}" if count == 1 else f"{parameter}{_MIGRATED}{count}"


def original_name(parameter: str) -> str:
    """Return the name of the parameter that a migrated one was, or of one that is not migrated."""
    return parameter.partition(_MIGRATED)[0]


def is_factors_name(name: str) -> bool:
    """Whether a parameter holds factors: who delivers it has seen to that they are positive."""
    return name.endswith(_FACTORS)


def is_transform_name(name: str) -> bool:
    """Whether a parameter holds factors or a rotation."""
    return is_factors_name(name) or is_rotation_name(name)


def is_migrated(name: str) -> bool:
    """Whether a parameter is one with transforms."""
    return _MIGRATED in name
