"""Write kernels and plans into one folder, all of it or nothing."""

import hashlib
import shutil
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, print_plan
from ascendfx.codegen.ascendc.target import Target
from ascendfx.ir.diagnostic import GraphError

MANIFEST = "MANIFEST"
"""Name of the list of files: ``sha256``, two spaces, path; as ``sha256sum -c`` reads it."""

TARGET = "TARGET"
"""Name of the file that holds the name of the chip the plans were made for."""


def package_files(plans: Sequence[LaunchPlan], target: Target) -> dict[str, str]:
    """Return the text of every file by its path in the package, the manifest last.

    Args:
        plans: One per kind of step, with distinct names.
        target: The chip they were made for.

    Raises:
        GraphError: Two plans or kernels share a name but not their contents.
    """
    files: dict[str, str] = {TARGET: f"{target.name}\n"}
    for plan in plans:
        _put(files, f"plan-{plan.name}.json", print_plan(plan))
        for kernel in plan.kernels:
            _put(files, f"kernels/{kernel.name}.cpp", kernel.source)
    ordered = dict(sorted(files.items()))
    ordered[MANIFEST] = "".join(f"{_digest(text)}  {path}\n" for path, text in ordered.items())
    return ordered


def emit_package(directory: Path, plans: Sequence[LaunchPlan], target: Target) -> None:
    """Write the package under a temporary name and rename it.

    A package that is there already is replaced; anything else is left alone.

    Raises:
        GraphError: ``directory`` is something else, or names clash.
    """
    files = package_files(plans, target)
    if directory.exists() and not (directory / MANIFEST).is_file() and any(directory.iterdir()):
        raise GraphError(
            code="not-a-package",
            reason=f"{directory} has contents but is no package",
            hint="choose another name, or delete it",
        )
    directory.parent.mkdir(parents=True, exist_ok=True)
    scratch = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    try:
        write_files(scratch, files)
        _replace(scratch, directory)
    finally:
        shutil.rmtree(scratch, ignore_errors=True)


def write_files(directory: Path, files: Mapping[str, str]) -> None:
    """Write texts under a folder."""
    for path, text in files.items():
        target = directory / path
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text, encoding="utf-8")


def _replace(scratch: Path, directory: Path) -> None:
    """Put ``scratch`` in the place of ``directory``, which may hold an older package."""
    if not directory.exists():
        scratch.replace(directory)
        return
    old = Path(tempfile.mkdtemp(prefix=f".{directory.name}.", dir=directory.parent))
    directory.replace(old / "old")
    scratch.replace(directory)
    shutil.rmtree(old)


def _put(files: dict[str, str], path: str, text: str) -> None:
    if files.setdefault(path, text) != text:
        raise GraphError(
            code="package-name-clash",
            reason=f"two plans want to write different texts to `{path}`",
            hint="give the plans different names",
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
