"""Mutants of a kernel that are no errors: one file per kernel, each mutant with its reason.

A file has a line per reason, and under it, indented, the identities of mutants (`identities`).
"""

from collections.abc import Callable, Sequence
from pathlib import Path

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.target import Target
from ascendfx.runtime.emulator import BuiltKernel
from tests.kernels.text_mutants import Mutant, identities, survivors, text_mutants

FOLDER = Path(__file__).parent / "excused_mutants"
_INDENT = "    "


def excused(name: str) -> dict[str, str]:
    """Return the reason for each mutant of the kernel that needs not be noticed."""
    reasons: dict[str, str] = {}
    reason = ""
    for line in (FOLDER / f"{name}.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith(_INDENT):
            reason = line
            continue
        mutant = line.removeprefix(_INDENT)
        assert reason, f"{name}: no reason for {mutant}"
        assert mutant not in reasons, f"{name}: twice: {mutant}"
        reasons[mutant] = reason
    return reasons


def files_of(table: str) -> set[str]:
    """Return the names of the files of excuses of one table."""
    return {each.stem for each in (FOLDER / table).iterdir()}


def wrong_excuses(
    name: str,
    kernel: Kernel,
    run: Callable[[BuiltKernel], None],
    target: Target,
    *,
    mutants: Sequence[Mutant] | None = None,
) -> list[str]:
    """Return survivors without an excuse, and excuses of mutants that do not survive.

    Args:
        name: Table and file of the excuses.
        kernel: The kernel as emitted.
        run: Launches and asserts the results.
        target: Chip to build for.
        mutants: Those to try; None: all.
    """
    named = identities(text_mutants(kernel.source))
    tried = named if mutants is None else {n: m for n, m in named.items() if m in mutants}
    alive = survivors(kernel, tuple(tried.values()), run, target)
    living = {n for n, m in tried.items() if m in alive}
    reasons = excused(name)
    stale = sorted(n for n in reasons if n not in living and (mutants is None or n in tried))
    return [f"survives: {tried[n]}" for n in tried if n in living and n not in reasons] + [
        f"excuse is stale: {n}" for n in stale
    ]
