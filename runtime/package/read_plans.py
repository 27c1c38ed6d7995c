"""Read the plans of a package back, checking every file against its hash."""

import hashlib
from pathlib import Path

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, read_plan
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.package.write_plans import HASHES


def read_plans(directory: Path) -> dict[str, LaunchPlan]:
    """Return the plans of a package by name, with the texts of their kernels.

    Raises:
        GraphError: A file is missing, changed, or of another version.
    """
    files = _checked_files(directory)
    sources = {Path(path).stem: text for path, text in files.items() if path.startswith("kernels/")}
    plans = [
        read_plan(text, sources)
        for path, text in files.items()
        if path.startswith("plan-") and path.endswith(".json")
    ]
    return {plan.name: plan for plan in plans}


def _checked_files(directory: Path) -> dict[str, str]:
    hashes = directory / HASHES
    if not hashes.is_file():
        raise GraphError(
            code="not-a-package",
            reason=f"{directory} has no {HASHES}",
            hint="a package is what `ascendfx compile` or `engine.save` wrote",
        )
    files: dict[str, str] = {}
    for line in hashes.read_text(encoding="utf-8", errors="replace").splitlines():
        digest, gap, path = line.partition("  ")
        if not gap:
            raise _damaged(directory, HASHES, "has a line without a path")
        file = directory / path
        if not file.is_file():
            raise _damaged(directory, path, "is missing")
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise _damaged(directory, path, "is not what was written")
        files[path] = data.decode("utf-8")
    return files


def _damaged(directory: Path, path: str, what: str) -> GraphError:
    return GraphError(
        code="package-damaged",
        reason=f"{directory}: `{path}` {what}",
        hint="compile the model again",
    )
