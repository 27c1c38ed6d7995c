"""Check of a chain's memory plan that does not trust the liveness walk."""

from ascendfx.codegen.ascendc.kernels.vector_chain import VectorChainPlan
from ascendfx.codegen.ascendc.kernels.vector_chain.places import root_of
from ascendfx.codegen.ascendc.kernels.vector_chain.program import Store, sources_of


def assert_values_keep_their_memory(plan: VectorChainPlan) -> None:
    """Assert that at every step the results of earlier steps still needed keep their memory."""
    program, schedule, starts = plan.program, plan.schedule, plan.places.starts
    owner: dict[int, int] = {}  # f32 element -> value written there last

    def size(value: int) -> int:
        layout = plan.tile.layout(program.layouts[value])
        return layout.elements(1 if value in schedule.once else plan.tile.rows)

    for i in (*schedule.once, *schedule.tile):
        for source in sources_of(program.steps[i]):
            root = root_of(program, source)
            if root in starts:
                span = range(starts[root], starts[root] + size(root))
                assert {owner[each] for each in span} == {root}
        if i in starts and not isinstance(program.steps[i], Store):
            owner |= dict.fromkeys(range(starts[i], starts[i] + size(i)), i)
