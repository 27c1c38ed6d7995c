"""Read the plans and runners of a package back, checking every file against its hash."""

import hashlib
from collections.abc import Mapping
from pathlib import Path

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, read_plan
from ascendfx.codegen.ascendc.runner.emit_runner import runner_file
from ascendfx.runtime.package.hashes import damaged, read_hashes
from ascendfx.runtime.package.write_plans import RUNNERS


def read_plans(directory: Path) -> dict[str, LaunchPlan]:
    """Return the plans of a package by name, with the texts of their kernels.

    Raises:
        GraphError: A file is missing, changed, or of another version.
    """
    files = _checked_files(directory, ("plan-", "kernels/"))
    sources = {Path(path).stem: text for path, text in files.items() if path.startswith("kernels/")}
    plans = [read_plan(text, sources) for path, text in files.items() if path.startswith("plan-")]
    return {plan.name: plan for plan in plans}


def read_runners(directory: Path, plans: Mapping[str, LaunchPlan]) -> dict[str, str]:
    """Return the text of each plan's runner by the name of the plan.

    Raises:
        GraphError: A file is missing or changed.
    """
    files = _checked_files(directory, (f"{RUNNERS}/",))
    runners: dict[str, str] = {}
    for name, plan in plans.items():
        path = f"{RUNNERS}/{runner_file(plan)}"
        if path not in files:
            raise damaged(directory, path, "is missing")
        runners[name] = files[path]
    return runners


def _checked_files(directory: Path, prefixes: tuple[str, ...]) -> dict[str, str]:
    files: dict[str, str] = {}
    for path, digest in read_hashes(directory).items():
        if not path.startswith(prefixes):
            continue
        file = directory / path
        if not file.is_file():
            raise damaged(directory, path, "is missing")
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise damaged(directory, path, "is not what was written")
        files[path] = data.decode("utf-8")
    return files
