"""Source files by a name that means the same in another clone or virtual environment."""

import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path, PurePath

_INSTALLED = ("site-packages", "dist-packages")
_OWN = Path(__file__).parents[1]
"""The import package itself, which a checkout has outside of `_INSTALLED`."""


def portable_name(file: str) -> str | None:
    """Return the path of a module's file below the folder that packages lie in.

    Returns:
        For example ``transformers/activations.py``; None for a file that is of no installed
        package: nothing is known of where it lies elsewhere.
    """
    path = PurePath(file)
    if path.is_relative_to(_OWN):
        return PurePath(_OWN.name, path.relative_to(_OWN)).as_posix()
    for root in _roots():
        if path.is_relative_to(root):
            return path.relative_to(root).as_posix()
    return None


def local_file(name: str) -> str | None:
    """Return where a `portable_name` lies here; None if this installation has no such file."""
    own = PurePath(name).is_relative_to(_OWN.name)
    for root in (_OWN.parent,) if own else _roots():
        if (root / name).is_file():
            return str(root / name)
    return None


def shown_file(file: str) -> str:
    """Return the portable name if there is one, for texts that are read on other machines."""
    return portable_name(file) or file


def _roots() -> Iterator[Path]:
    """Yield where packages lie; the library of Python comes last, as it may hold the others."""
    for entry in map(Path, sys.path):
        if entry.name in _INSTALLED:
            yield entry
    yield Path(sysconfig.get_path("stdlib"))
