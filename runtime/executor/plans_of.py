"""Which plans an executor has: a package may hold one half of the work."""

from ascendfx.ir.step_names import PLANS
from ascendfx.runtime.executor.step import Executor


def plans_of(executor: Executor) -> tuple[str, ...]:
    """Return the names of its plans."""
    return tuple(each for each in PLANS if _has(executor, each))


def _has(executor: Executor, plan: str) -> bool:
    try:
        executor.capacities(plan)
    except KeyError:
        return False
    return True
