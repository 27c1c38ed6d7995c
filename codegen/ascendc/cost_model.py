"""Modelled time of launches and operations: a roofline over the rates of the target.

``time = max(cube, vector, device memory, second-level cache) + launch + start-up``, every unit at
its measured efficiency. Tile padding, the spread of work over cores and what stays in the
second-level cache between launches are not modelled. A cycle-accurate model can stand behind the
same two functions, `launch_cost` and `cost_of_plan`.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.codegen.ascendc.target import Rates, Target
from ascendfx.codegen.ascendc.work import KernelWork, StepSizes, Work
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType


@dataclass(frozen=True, slots=True)
class LaunchCost:
    """Modelled figures of one launch, or of several.

    Attributes:
        seconds: Time.
        bytes: Moved between device memory and the chip.
        operations: Operations of both units.
        bound: What takes the time: ``hbm``, ``l2``, ``cube``, ``vector`` or ``launch``.
    """

    seconds: float
    bytes: float
    operations: float
    bound: str


@dataclass(frozen=True, slots=True)
class KernelCost:
    """One kernel of a plan.

    Attributes:
        work: Which kernel, and where it comes from.
        launches: Per step.
        each: Figures of one launch.
    """

    work: KernelWork
    launches: int
    each: LaunchCost


@dataclass(frozen=True, slots=True)
class PlanCost:
    """Modelled figures of a step.

    Attributes:
        target: Name of the chip.
        step: How large the step is.
        kernels: By first launch.
    """

    target: str
    step: StepSizes
    kernels: tuple[KernelCost, ...]

    @property
    def launches(self) -> int:
        """Launches of the step."""
        return sum(each.launches for each in self.kernels)

    @property
    def seconds(self) -> float:
        """Time of the step; launches follow each other."""
        return sum(each.launches * each.each.seconds for each in self.kernels)

    @property
    def bytes(self) -> float:
        """Bytes moved between device memory and the chip."""
        return sum(each.launches * each.each.bytes for each in self.kernels)

    @property
    def operations(self) -> float:
        """Operations of both units."""
        return sum(each.launches * each.each.operations for each in self.kernels)


def busy_seconds(work: Work, target: Target, step: StepSizes) -> Mapping[str, float]:
    """Return how long each unit is busy with a launch, without its launch and start-up.

    Args:
        work: What it does.
        target: The chip.
        step: How large the step is.
    """
    numbers, rates, clock = work.numbers(step), target.rates, target.clock_mhz * 1e6
    products = _products_per_cycle(numbers.format, rates)
    on_cube = numbers.products > 0
    memory = rates.cube_memory_efficiency if on_cube else rates.vector_memory_efficiency
    cube = target.cube_cores * products * clock * rates.cube_efficiency
    vector = target.vector_cores * rates.vector_lanes * clock * rates.vector_efficiency
    return {
        "hbm": numbers.bytes / (target.hbm_bytes_per_second * memory),
        "l2": (numbers.bytes + numbers.rereads) / rates.cache_bytes_per_second,
        "cube": numbers.products / cube,
        "vector": numbers.vector_slots / vector,
    }


def _products_per_cycle(dtype: DType, rates: Rates) -> int:
    known = {
        DType.F32: rates.cube_products_f32,
        DType.I8: rates.cube_products_i8,
        DType.I4X2: rates.cube_products_i4,
    }
    return known.get(dtype, rates.cube_products)


def launch_cost(work: Work, target: Target, step: StepSizes) -> LaunchCost:
    """Return the modelled figures of one launch."""
    numbers, rates = work.numbers(step), target.rates
    parts = busy_seconds(work, target, step)
    launch = rates.cube_launch_seconds if numbers.products else rates.vector_launch_seconds
    overhead = launch + rates.start_up_cycles / (target.clock_mhz * 1e6)
    bound = max(parts, key=lambda name: parts[name])
    return LaunchCost(
        seconds=parts[bound] + overhead,
        bytes=numbers.bytes,
        operations=numbers.operations,
        bound="launch" if overhead > parts[bound] else bound,
    )


def largest_step(plan: LaunchPlan) -> StepSizes:
    """Return the step a plan was made for."""
    sizes = plan.capacities
    return StepSizes(sizes.rows, sizes.requests, sizes.context)


def cost_of_plan(plan: LaunchPlan, target: Target, step: StepSizes | None = None) -> PlanCost:
    """Return the modelled figures of a step.

    Args:
        plan: As `lower_program` made it.
        target: The chip.
        step: How large the step is; None: as large as the plan allows.

    Raises:
        GraphError: A kernel of the plan has no record of its work.
    """
    step = step or largest_step(plan)
    known = {work.kernel: work for work in plan.works}
    launches = Counter(launch.kernel for launch in plan.launches)
    missing = [name for name in launches if name not in known]
    if missing:
        raise GraphError(
            code="no-work",
            reason=f"plan `{plan.name}` does not say what kernel `{missing[0]}` does",
            hint="compile the package again",
        )
    kernels = tuple(
        KernelCost(known[name], count, launch_cost(known[name].work, target, step))
        for name, count in launches.items()
    )
    return PlanCost(target.name, step, kernels)
