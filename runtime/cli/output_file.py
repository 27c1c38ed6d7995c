"""The place of a file that a subcommand writes, checked before the work."""

from pathlib import Path

from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.dumps.dump_header import HEADER, INDEX, TIMING
from ascendfx.runtime.replaced_file import place_of, refused_place


def prepare_output(file: Path, dump: Path) -> None:
    """Make the folder of ``file``; an older file there will be replaced, nothing else.

    Args:
        file: What the user named.
        dump: What the subcommand reads: its files are not replaced, and its stages are its own.

    Raises:
        GraphError: A file cannot have this name, something else has it, or it belongs to the
            dump.
    """
    place = place_of(file)
    try:
        own = _belongs(place, dump.resolve())
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, a circle of links
        raise refused_place(file, str(error)) from error
    if own:
        raise refused_place(file, f"it belongs to the dump {dump}")
    with writing(file):
        place.parent.mkdir(parents=True, exist_ok=True)


def prepare_beside(file: Path, package: Path) -> None:
    """As `prepare_output`, for a subcommand that reads a package: no file in it is replaced.

    Raises:
        GraphError: A file cannot have this name, something else has it, or it is in the package.
    """
    prepare_output(file, package)
    if file.resolve().is_relative_to(package.resolve()):
        raise refused_place(file, f"it would be in the package {package}")


def check_apart(package: Path, dump: Path | None) -> None:
    """Check that a package and a dump get folders of their own, neither inside of the other.

    Raises:
        GraphError: They do not.
    """
    if dump is None:
        return
    try:
        one, other = package.resolve(), dump.resolve()
    except (OSError, ValueError, RuntimeError) as error:  # a zero byte, a circle of links
        raise refused_place(dump, str(error)) from error
    if one.is_relative_to(other) or other.is_relative_to(one):
        raise refused_place(dump, f"the package is to be {package}")


def _belongs(place: Path, dump: Path) -> bool:
    if not place.is_relative_to(dump):
        return False
    parts = place.relative_to(dump).parts
    if len(parts) > 1:
        return (dump / parts[0] / INDEX).exists()
    return parts in ((HEADER,), (TIMING,))
