"""Write plans and the texts of their kernels and runners under a folder, with a list of hashes."""

import hashlib
from collections.abc import Sequence
from pathlib import Path

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan, print_plan
from ascendfx.codegen.ascendc.runner.emit_runner import HEADER, emit_runner, runner_file
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.emulator.runner_tools import runner_sources
from ascendfx.runtime.package.hashes import HASHES, hash_lines

RUNNERS = "runners"
"""Folder of the text that launches each plan, and of the header it includes."""


def write_plans(directory: Path, plans: Sequence[LaunchPlan]) -> None:
    """Write every file of the plans.

    Raises:
        GraphError: Two plans or kernels share a name but not their contents.
        OSError: The disk is full or not writable.
    """
    for path, text in plan_files(plans).items():
        file = directory / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(text, encoding="utf-8")


def plan_files(plans: Sequence[LaunchPlan]) -> dict[str, str]:
    """Return the text of every file by its path, the hashes last.

    Args:
        plans: One per kind of step, with distinct names.

    Raises:
        GraphError: Two plans or kernels share a name but not their contents.
    """
    files: dict[str, str] = {}
    for plan in plans:
        _put(files, f"plan-{plan.name}.json", print_plan(plan))
        for kernel in plan.kernels:
            _put(files, f"kernels/{kernel.name}.cpp", kernel.source)
        _put(files, f"{RUNNERS}/{runner_file(plan)}", emit_runner(plan))
        _put(files, f"{RUNNERS}/{HEADER}", runner_sources()[HEADER])
    ordered = dict(sorted(files.items()))
    ordered[HASHES] = hash_lines({path: _digest(text) for path, text in ordered.items()})
    return ordered


def _put(files: dict[str, str], path: str, text: str) -> None:
    if files.setdefault(path, text) != text:
        raise GraphError(
            code="package-name-clash",
            reason=f"two plans want to write different texts to `{path}`",
            hint="give the plans different names",
        )


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()
