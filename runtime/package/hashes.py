"""The list of hashes of a package: every file of it, so that any changed byte is noticed."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.progress import Progress, silent

HASHES = "MANIFEST"
"""Name of the list of files: ``sha256``, two spaces, path; as ``sha256sum -c`` reads it."""

_PIECE = 16 << 20
_MIB = 1 << 20


def hash_lines(digests: Mapping[str, str]) -> str:
    """Return the lines of the list for hashes by path."""
    return "".join(f"{digest}  {path}\n" for path, digest in digests.items())


def read_hashes(directory: Path) -> dict[str, str]:
    """Return the hash of each file of a package by its path.

    Raises:
        GraphError: There is no list, or it is damaged.
    """
    hashes = directory / HASHES
    if not hashes.is_file():
        raise GraphError(
            code="not-a-package",
            reason=f"{directory} has no {HASHES}",
            hint="a package is what `ascendfx compile` or `engine.save` wrote",
        )
    found: dict[str, str] = {}
    # Bytes, not text lines: another end of a line is a changed byte, too.
    *lines, rest = hashes.read_bytes().decode(errors="replace").split("\n")
    if rest:
        raise damaged(directory, HASHES, "does not end with a line")
    for line in lines:
        digest, gap, path = line.partition("  ")
        if not gap:
            raise damaged(directory, HASHES, "has a line without a path")
        found[path] = digest
    return found


def check_file(
    directory: Path, path: str, digests: Mapping[str, str], *, progress: Progress = silent
) -> None:
    """Check that a file is what was written, reading it in pieces.

    Args:
        directory: The package.
        path: The file in it.
        digests: What `read_hashes` returned.
        progress: Told about ``check PATH`` in MiB.

    Raises:
        GraphError: It is missing, changed, or not in the list.
    """
    file = directory / path
    if path not in digests:
        raise damaged(directory, HASHES, f"has no line for `{path}`")
    if not file.is_file():
        raise damaged(directory, path, "is missing")
    digest = hashlib.sha256()
    size = file.stat().st_size
    total = -(-size // _MIB)
    with file.open("rb") as handle:
        while piece := handle.read(_PIECE):
            progress(f"check {path}", min((handle.tell() - len(piece)) // _MIB, total), total)
            digest.update(piece)
    progress(f"check {path}", total, total)
    if digest.hexdigest() != digests[path]:
        raise damaged(directory, path, "is not what was written")


def damaged(directory: Path, path: str, what: str) -> GraphError:
    """Return the error for a file of a package."""
    return GraphError(
        code="package-damaged",
        reason=f"{directory}: `{path}` {what}",
        hint="copy the package again, or compile the model again",
    )
