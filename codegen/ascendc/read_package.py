"""Read a package back, checking every file against the manifest."""

import hashlib
from dataclasses import dataclass
from pathlib import Path

from ascendfx.codegen.ascendc.emit_package import MANIFEST, WEIGHTS
from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, read_plan
from ascendfx.codegen.ascendc.weight_spec import WeightSpec, read_weights
from ascendfx.ir.diagnostic import GraphError


@dataclass(frozen=True)
class Package:
    """What `emit_package` wrote.

    Attributes:
        plans: By name.
        weights: Every weight once.
    """

    plans: dict[str, LaunchPlan]
    weights: tuple[WeightSpec, ...]


def read_package(directory: Path) -> Package:
    """Return the plans and weights of a package.

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
    return Package({plan.name: plan for plan in plans}, read_weights(files[WEIGHTS]))


def _checked_files(directory: Path) -> dict[str, str]:
    manifest = directory / MANIFEST
    if not manifest.is_file():
        raise GraphError(code="not-a-package", reason=f"{directory} has no {MANIFEST}")
    files: dict[str, str] = {}
    for line in manifest.read_text(encoding="utf-8").splitlines():
        digest, path = line.split("  ", 1)
        file = directory / path
        if not file.is_file():
            raise GraphError(code="package-damaged", reason=f"{directory}: `{path}` is missing")
        data = file.read_bytes()
        if hashlib.sha256(data).hexdigest() != digest:
            raise GraphError(
                code="package-damaged",
                reason=f"{directory}: `{path}` is not what was written",
                hint="compile the package again",
            )
        files[path] = data.decode("utf-8")
    if WEIGHTS not in files:
        raise GraphError(code="package-damaged", reason=f"{directory}: no {WEIGHTS}")
    return files
