"""Fields of a configuration that we read ourselves: each is right, or one error names it."""

from collections.abc import Mapping
from operator import index
from typing import Any

from ascendfx.ir.diagnostic import GraphError

_BLOCK = (128, 128)
"""Rows and columns of a float8 block unless a configuration says otherwise."""


def count_in(config: Mapping[str, Any], name: str, where: str) -> int:
    """Return a number of something; 0 if the configuration does not say.

    Args:
        config: A configuration as plain data.
        name: The field.
        where: What the configuration is called in a message.

    Raises:
        GraphError: The field is no whole number, or a negative one.
    """
    found = config.get(name)
    number = 0 if found is None else _whole(found)
    if number is None or number < 0:
        raise _bad(where, name, found, "a whole number, 0 or more")
    return number


def end_ids_in(config: Mapping[str, Any], where: str, vocabulary: int) -> tuple[int, ...]:
    """Return the token ids that end a generation: ``eos_token_id`` is one, several or none.

    Args:
        config: A configuration as plain data.
        where: What the configuration is called in a message.
        vocabulary: Number of token ids; 0 if it is not known.

    Raises:
        GraphError: One is no whole number, or no token of the vocabulary.
    """
    name = "eos_token_id"
    found = config.get(name)
    if found is None:
        return ()
    several = tuple(found) if isinstance(found, list | tuple) else (found,)
    ids = tuple(each for each in map(_whole, several) if each is not None)
    if len(ids) < len(several):
        raise _bad(where, name, found, "a token id, or a list of them")
    wrong = [each for each in ids if each < 0 or 0 < vocabulary <= each]
    if wrong:
        known = f"0 to {vocabulary - 1}" if vocabulary else "0 or more"
        raise GraphError(
            "bad-config",
            f"`{name}` of {where} has {wrong[0]}, but token ids are {known}",
            hint="use the configuration that belongs to the model; null: no token ends a text",
        )
    return ids


def block_in(config: Mapping[str, Any], where: str) -> tuple[int, int]:
    """Return rows and columns of a float8 block: ``quantization_config.weight_block_size``.

    Raises:
        GraphError: The fields have another form.
    """
    quantization = config.get("quantization_config")
    if quantization is None:
        return _BLOCK
    if not isinstance(quantization, Mapping):
        raise _bad(where, "quantization_config", quantization, "an object with its own fields")
    found: Any = quantization.get("weight_block_size")
    if found is None:
        return _BLOCK
    sizes = [_whole(each) for each in found] if isinstance(found, list | tuple) else []
    match sizes:
        case [int(rows), int(columns)] if rows > 0 and columns > 0:
            return rows, columns
        case _:
            name = "quantization_config.weight_block_size"
            raise _bad(where, name, found, "two positive whole numbers")


def _whole(found: object) -> int | None:
    """Return a whole number, which may be one of NumPy, as an ``int``; None if it is none."""
    try:
        return None if isinstance(found, bool) else index(found)  # pyright: ignore[reportArgumentType]
    except TypeError:
        return None


def _bad(where: str, name: str, found: object, wanted: str) -> GraphError:
    return GraphError(
        "bad-config",
        f"`{name}` of {where} is {found!r}, it should be {wanted}",
        hint="use the configuration that belongs to the model",
    )
