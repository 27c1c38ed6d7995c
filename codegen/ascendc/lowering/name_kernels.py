"""Give every distinct kernel one name: equal texts and launch contracts are one kernel."""

from collections.abc import Sequence

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.lowering.step import KernelStep

_UNNAMED = "kernel"


def name_kernels(steps: Sequence[KernelStep], plan: str) -> tuple[Kernel, ...]:
    """Return the kernel of each step.

    Names start with the plan's, because kernels of two plans may differ in capacities alone, and
    tell the operation and its sizes. Different kernels that tell the same are numbered by first
    use.

    Args:
        steps: In launch order.
        plan: Name of the plan.
    """
    named: dict[Kernel, Kernel] = {}
    taken: dict[str, int] = {}
    kernels: list[Kernel] = []
    for step in steps:
        unnamed = step.emit(step.plan, _UNNAMED)
        if unnamed not in named:
            base = f"{plan}_{step.name}"
            taken[base] = taken.get(base, 0) + 1
            name = base if taken[base] == 1 else f"{base}_{taken[base]}"
            named[unnamed] = step.emit(step.plan, name)
        kernels.append(named[unnamed])
    return tuple(kernels)
