"""What eight-bit codes are worth in a decode step of DeepSeek-V3 at full size.

    python tests/benchmarks/quantized_step_full_v3.py [LAYERS]        default: 61

Prints, for bf16 and for the preset w8a8, the launches of a layer, and over the batch time and bytes
of a step; then every kernel of an MoE layer with codes. All figures of time and bytes are modelled,
for one chip that holds everything.
"""

import argparse
import time
from collections import Counter
from collections.abc import Mapping

from ascendfx.codegen.ascendc.cost_model import PlanCost, StepSizes, cost_of_plan
from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.program import Program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.quant_passes.insertion.chosen_lines import chosen_lines
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.lowering import results_of
from ascendfx.runtime.presets import closing_passes, passes_for, serving_passes

TARGET = find_target("ascend910b2")
CONTEXT, SHOWN = 4096, 32
BATCHES = (1, 8, 32, 128)
DENSE_LAYERS = 3
FORMS: Mapping[str, str | None] = {"bf16": None, "w8a8": "w8a8"}


def captured_v3(layers: int) -> Program:
    """Return V3 on meta tensors."""
    import torch  # noqa: PLC0415
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM  # noqa: PLC0415

    # The defaults of DeepseekV3Config are those of the published checkpoint.
    config = DeepseekV3Config(num_hidden_layers=layers, torch_dtype="bfloat16")
    with torch.device("meta"):
        model = DeepseekV3ForCausalLM(config).to(torch.bfloat16).eval()
    return capture_model(model).program


def lowered_plan(program: Program, quant: str | None) -> LaunchPlan:
    """Return the plan of a decode step."""
    limits = Limits(max(BATCHES), CONTEXT)
    lines = chosen_lines(quant)
    inserted = (InsertQuantization(lines),) if lines else ()
    passes = passes_for("decode", target=TARGET, limits=limits)
    step_passes = (*serving_passes(), *inserted, *passes, *closing_passes("decode"))
    program, _ = run_pipeline(program, step_passes)
    step = limits.step("decode")
    plan, _ = lower_program(
        program,
        target=TARGET,
        name="decode",
        rows=step.rows,
        requests=step.requests,
        context=step.context,
        blocks=limits.blocks,
        steps=limits.group_steps,
        places=limits.max_batch,
        results=results_of(program),
    )
    return plan


def launches_of(plan: LaunchPlan) -> str:
    """Return the launches of a step, and of a layer of each kind."""
    places = Counter(launch.label.partition(":")[0] for launch in plan.launches)
    dense, moe = (places[f"model.layers.{layer}"] for layer in (0, DENSE_LAYERS))
    return f"{len(plan.launches):,} launches: {moe} of an MoE layer, {dense} of a dense one"


def costs(plan: LaunchPlan, batch: int) -> PlanCost:
    """Return the modelled figures of a step."""
    return cost_of_plan(plan, TARGET, StepSizes(batch, batch, CONTEXT))


def show_batches(plans: Mapping[str, LaunchPlan]) -> None:
    """Print time and bytes over the batch."""
    print(f"\ncontext {CONTEXT}; modelled\n{'batch':>5}", end="")
    print("".join(f"{name + ' ms':>11}{name + ' GB':>10}" for name in plans), " ratio")
    for batch in BATCHES:
        found = [costs(plan, batch) for plan in plans.values()]
        shown = "".join(f"{each.seconds * 1e3:11.2f}{each.bytes / 1e9:10.1f}" for each in found)
        print(f"{batch:5}{shown}{found[0].seconds / found[-1].seconds:7.2f}")


def show_kernels(plan: LaunchPlan) -> None:
    """Print the kernels that run in most layers."""
    print(f"\nkernels of layers with codes, batch {SHOWN}; modelled")
    for each in costs(plan, SHOWN).kernels:
        if each.launches > DENSE_LAYERS:
            print(
                f"  {each.launches:3} x {each.each.seconds * 1e6:8.1f} us, {each.each.bound:6} "
                f"{each.work.kernel}"
            )


def main() -> None:
    """Capture, lower both forms, then print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layers", nargs="?", type=int, default=61, help="of the main model")
    layers = parser.parse_args().layers
    program = captured_v3(layers)
    plans: dict[str, LaunchPlan] = {}
    for name, quant in FORMS.items():
        start = time.perf_counter()
        plans[name] = lowered_plan(program, quant)
        print(f"{name}, {layers} layers, {TARGET.name}: {launches_of(plans[name])}; ", end="")
        print(f"compiled in {time.perf_counter() - start:.1f} s")
    show_batches(plans)
    show_kernels(plans["w8a8"])


if __name__ == "__main__":
    main()
