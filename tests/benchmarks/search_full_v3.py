"""What search gains on DeepSeek-V3 at full size, against the absorbed form of its reference code.

    python tests/benchmarks/search_full_v3.py [LAYERS]        default: 61

Prints modelled bytes and floating-point operations per layer for a decode step (batch 32, context
4096) and a prefill chunk, before and after, and the time of the search per distinct layer. All
figures of time, bytes and operations are modelled.
"""

import argparse
import sys
import time
from collections.abc import Sequence
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from ascendfx.codegen.ascendc.cost_model import launch_cost
from ascendfx.codegen.ascendc.lowering.graph_context import find_constants
from ascendfx.codegen.ascendc.lowering.lower_program import pairs_per_row
from ascendfx.codegen.ascendc.modelled_op_cost import ModelledOpCost
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.codegen.ascendc.work import StepSizes
from ascendfx.codegen.ascendc.work_of_op import VIEWS, work_of_op
from ascendfx.ir.graph import Graph
from ascendfx.ir.ops import Call, Input
from ascendfx.ir.program import Program
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.search.op_cost import Cost
from ascendfx.passes.search.search_forms import SearchForms
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.presets import TO_SERVING, passes_for
from tests.search.reference_layer import reference_layer

TARGET = find_target("ascend910b")
BATCH, CONTEXT = 32, 4096
CHUNKS = (128, 1024)


def serving_form(layers: int) -> Program:
    """Return V3 after derive-incremental-form."""
    import torch  # noqa: PLC0415
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM  # noqa: PLC0415

    # The defaults of DeepseekV3Config are those of the published checkpoint.
    config = DeepseekV3Config(num_hidden_layers=layers, torch_dtype="bfloat16")
    with torch.device("meta"):
        model = DeepseekV3ForCausalLM(config).to(torch.bfloat16).eval()
    captured = capture_model(model, dtype=None, trace_folder=None)
    return run_pipeline(captured.program, TO_SERVING)[0]


def op_by_op(graph: Graph, step: StepSizes) -> Cost:
    """Return what a form would cost with one launch per operation, kernel or not."""
    chosen = pairs_per_row(Program((graph,)))
    costs = []
    constants = find_constants(graph)
    for position, node in enumerate(graph.nodes):
        if position in constants or isinstance(node.op, (Input, *VIEWS)):
            continue
        operands = [graph.type_of(value) for value in node.operands]
        costs.append(
            launch_cost(work_of_op(node.op, operands, node.types, chosen=chosen), TARGET, step)
        )
    return Cost(
        *(sum(getattr(c, name) for c in costs) for name in ("seconds", "bytes", "operations"))
    )


def rewrite(program: Program, passes: Sequence[ProgramPass]) -> tuple[Program, float]:
    """Return the final program and the seconds the search took."""
    after, runs = run_pipeline(program, passes)
    return after, sum(run.seconds for run in runs if run.name == SearchForms.name)


def row(name: str, cost: Cost | None) -> str:
    if cost is None:
        return f"  {name:42} no kernel"
    figures = f"{cost.bytes / 1e6:12.2f} MB {cost.operations / 1e9:12.3f} GFLOP"
    return f"  {name:42} {figures} {cost.seconds * 1e6:12.2f} us"


def measure(program: Program, plan: str, limits: Limits) -> None:
    """Print one plan."""
    passes = {
        strategy: passes_for(plan, strategy=strategy, target=TARGET, limits=limits)
        for strategy in ("ordered", "search")
    }
    costs: ModelledOpCost = passes["search"][0].costs  # type: ignore[attr-defined]
    start = time.process_time()
    searched, seconds = rewrite(program, passes["search"])
    busy = time.process_time() - start
    ordered, _ = rewrite(program, passes["ordered"])
    layers = [g for g in program.graphs if not any(isinstance(n.op, Call) for n in g.nodes)]
    print(f"{plan}: {costs.step}")
    for layer in layers:
        found = costs.of_graph(searched.by_name[layer.name])
        by_order = costs.of_graph(ordered.by_name[layer.name])
        moe = bool(pairs_per_row(Program((layer,))))
        yardstick = costs.of_graph(reference_layer(moe=moe))
        assert isinstance(found, Cost)
        assert isinstance(yardstick, Cost)
        print(f" {layer.name} ({'experts' if moe else 'dense'}), modelled:")
        print(row("before, one launch per operation", op_by_op(layer, costs.step)))
        print(row("ordered", by_order if isinstance(by_order, Cost) else None))
        print(row("reference code, absorbed", yardstick))
        print(row("search", found))
        if plan == "decode":
            assert found.bytes <= yardstick.bytes
            assert found.operations <= yardstick.operations
            assert found.seconds <= yardstick.seconds
    print(
        f" search: {seconds / len(layers):.2f} s per distinct layer, all passes "
        f"{busy / len(layers):.2f} s of processor time"
    )


def main() -> None:
    """Capture once, then measure each plan."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layers", nargs="?", type=int, default=61, help="of the model")
    layers = parser.parse_args().layers
    program = serving_form(layers)
    print(f"{layers} layers, {len(program.graphs) - 1} distinct; target {TARGET.name}")
    measure(program, "decode", Limits(max_batch=BATCH, max_context=CONTEXT))
    for chunk in CHUNKS:
        measure(program, "prefill", Limits(BATCH, CONTEXT, chunk))


if __name__ == "__main__":
    main()
