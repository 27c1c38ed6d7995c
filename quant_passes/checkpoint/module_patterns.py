"""Names of many modules as few patterns, as configurations of compressed-tensors have them."""

import re
from collections.abc import Collection, Iterable
from functools import partial

_EXPERT = re.compile(r"(?<=\.experts\.)\d+(?=\.)")
_LAYER = re.compile(r"(?<=\blayers\.)\d+(?=\.)")
_ANY = r"\d+"


def patterns_of(chosen: Iterable[str], known: Collection[str]) -> list[str]:
    r"""Return ``re:`` patterns that match the chosen modules and no other known one.

    Numbers of experts become ``\d+`` where all known experts of a layer are chosen, numbers of
    layers where all layers are, else the choice of layers.

    Args:
        chosen: Names of modules.
        known: All names, the chosen ones included.
    """
    own = frozenset(chosen)
    whole = _whole_groups(own, known, partial(_replaced, _EXPERT))
    layers: dict[str, set[str]] = {}
    for pattern in whole:
        number = _LAYER.search(pattern)
        layers.setdefault(_replaced(_LAYER, pattern), set()).add(number[0] if number else "")
    everywhere = _all_layers(known)
    return sorted(_pattern(key, found, everywhere.get(key, set())) for key, found in layers.items())


def matches(pattern: str, module: str) -> bool:
    """Whether a target of a configuration is a module: its name, or a pattern of it."""
    if pattern.startswith("re:"):
        return re.match(pattern.removeprefix("re:"), module) is not None
    return pattern == module


def _replaced(number: re.Pattern[str], name: str) -> str:
    return number.sub("#", name, count=1)


def _whole_groups(own: frozenset[str], known: Collection[str], key: partial[str]) -> set[str]:
    """Return names where numbers of experts are replaced if all of their group are chosen."""
    broken = {key(name) for name in known if name not in own}
    return {name if key(name) in broken else key(name) for name in own}


def _all_layers(known: Collection[str]) -> dict[str, set[str]]:
    """Return the layers that have a module, by its name without numbers."""
    found: dict[str, set[str]] = {}
    for name in known:
        number = _LAYER.search(name)
        for each in {name, _replaced(_EXPERT, name)}:
            found.setdefault(_replaced(_LAYER, each), set()).add(number[0] if number else "")
    return found


def _pattern(key: str, layers: set[str], everywhere: set[str]) -> str:
    """Return the pattern of a name whose numbers are replaced, in some layers."""
    choice = _ANY if layers == everywhere else "|".join(sorted(layers, key=int))
    parts = [re.escape(part) for part in key.split("#")]
    if not _LAYER.search(key.replace("#", "0")) or not layers - {""}:
        return f"re:^{_ANY.join(parts)}$"
    first = f"(?:{choice})" if "|" in choice else choice
    return f"re:^{parts[0]}{first}{_ANY.join(parts[1:])}$"
