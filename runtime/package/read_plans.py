"""Read the plans of a package back, checking every file against its hash."""

import hashlib
from pathlib import Path

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, read_plan
from ascendfx.runtime.package.hashes import damaged, read_hashes


def read_plans(directory: Path) -> dict[str, LaunchPlan]:
    """Return the plans of a package by name, with the texts of their kernels.

    Raises:
        GraphError: A file is missing, changed, or of another version.
    """
    files = _checked_files(directory)
    sources = {Path(path).stem: text for path, text in files.items() if path.startswith("kernels/")}
    plans = [read_plan(text, sources) for path, text in files.items() if path.startswith("plan-")]
    return {plan.name: plan for plan in plans}


def _checked_files(directory: Path) -> dict[str, str]:
    files: dict[str, str] = {}
    for path, digest in read_hashes(directory).items():
        if not path.startswith(("plan-", "kernels/")):
            continue
        file = directory / path
        if not file.is_file():
            raise damaged(directory, path, "is missing")
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise damaged(directory, path, "is not what was written")
        files[path] = data.decode("utf-8")
    return files
