"""What codes of eight and four bits are worth in a decode step of DeepSeek-V3 at full size.

    python tests/benchmarks/quantized_step_full_v3.py [LAYERS]        default: 61

Prints, for bf16 and for the presets w8a8, w8a8kv8 and w4a8, the launches of a layer; over the batch
time and bytes of a step that reads weights, then of one that multiplies; the products of experts
alone; bytes of a token in the caches and the time of decode attention; then every kernel of an MoE
layer with codes. All figures of time and bytes are modelled, for one chip that holds everything.
"""

import argparse
import math
import time
from collections import Counter
from collections.abc import Mapping, Sequence

from ascendfx.codegen.ascendc.cost_model import PlanCost, StepSizes, cost_of_plan
from ascendfx.codegen.ascendc.launch_plan import LaunchPlan
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.program import Program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.quant_passes.insertion.chosen_lines import chosen_lines, quantizing_passes
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.lowering import results_of
from ascendfx.runtime.presets import closing_passes, passes_for, serving_passes

TARGET = find_target("ascend910b2")
CONTEXT, SHOWN = 4096, 32
SHORT_CONTEXT = 256
BATCHES, LARGE_BATCHES = (1, 8, 32, 128), (1024, 8192)
OF_PRODUCTS = (1, 32, 128, 1024, 8192)
"""From steps that read weights to steps that multiply."""
DENSE_LAYERS = 3
FORMS: Mapping[str, str | None] = {
    "bf16": None,
    "w8a8": "w8a8",
    "w8a8kv8": "w8a8kv8",
    "w4a8": "w4a8",
}


def captured_v3(layers: int, heads: int) -> Program:
    """Return V3 on meta tensors."""
    import torch  # noqa: PLC0415
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM  # noqa: PLC0415

    # The defaults of DeepseekV3Config are those of the published checkpoint.
    config = DeepseekV3Config(
        num_hidden_layers=layers,
        num_attention_heads=heads,
        num_key_value_heads=heads,
        torch_dtype="bfloat16",
    )
    with torch.device("meta"):
        model = DeepseekV3ForCausalLM(config).to(torch.bfloat16).eval()
    return capture_model(model).program


def lowered_plan(program: Program, quant: str | None) -> LaunchPlan:
    """Return the plan of a decode step."""
    limits = Limits(max(BATCHES), CONTEXT)
    inserted = quantizing_passes(chosen_lines(quant))
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


def costs(plan: LaunchPlan, batch: int, context: int = CONTEXT) -> PlanCost:
    """Return the modelled figures of a step."""
    return cost_of_plan(plan, TARGET, StepSizes(batch, batch, context))


def show_batches(plans: Mapping[str, LaunchPlan], batches: Sequence[int], context: int) -> None:
    """Print time and bytes over the batch."""
    heads = "".join(f"{name + ' ms':>12}{name + ' GB':>11}" for name in plans)
    ratios = "".join(f"{'/ ' + name:>11}" for name in [*plans][1:])
    print(f"\ncontext {context}; modelled\n{'batch':>5}{heads}{ratios}")
    for batch in batches:
        found = [costs(plan, batch, context) for plan in plans.values()]
        shown = "".join(f"{each.seconds * 1e3:12.2f}{each.bytes / 1e9:11.1f}" for each in found)
        ratios = "".join(f"{found[0].seconds / each.seconds:11.2f}" for each in found[1:])
        print(f"{batch:5}{shown}{ratios}")


def show_products(plans: Mapping[str, LaunchPlan]) -> None:
    """Print the time of the projections of experts, and what bounds it, over the batch."""
    print("\nprojections of routed experts alone; modelled")
    print(f"{'batch':>5}" + "".join(f"{name + ' ms':>18}" for name in plans))
    for batch in OF_PRODUCTS:
        shown = ""
        for plan in plans.values():
            kernels = [
                each for each in costs(plan, batch).kernels if "grouped_matmul" in each.work.kernel
            ]
            seconds = sum(each.launches * each.each.seconds for each in kernels)
            bounds = "+".join(sorted({each.each.bound for each in kernels}))
            shown += f"{seconds * 1e3:11.2f} {bounds:6}"
        print(f"{batch:5}{shown}")


def show_kernels(plan: LaunchPlan) -> None:
    """Print the kernels that run in most layers."""
    print(f"\nkernels of layers with four-bit codes, batch {SHOWN}; modelled")
    for each in costs(plan, SHOWN).kernels:
        if each.launches > DENSE_LAYERS:
            print(
                f"  {each.launches:3} x {each.each.seconds * 1e6:8.1f} us, {each.each.bound:6} "
                f"{each.work.kernel}"
            )


def show_caches(plans: Mapping[str, LaunchPlan]) -> None:
    """Print what a token takes in the caches, and what decode attention of a layer takes."""
    print(f"\ncaches and decode attention, context {CONTEXT}; modelled")
    print(f"{'':10}{'bytes of a token':>17}" + "".join(f"{f'batch {b}, us':>16}" for b in BATCHES))
    for name, plan in plans.items():
        caches = [each for each in plan.buffers if each.name.startswith("cache.")]
        tokens = [each for each in caches if each.shape[1:2] == (BLOCK_TOKENS,)]
        each_token = sum(each.bytes // math.prod(each.shape[:2]) for each in tokens)
        shown = ""
        for batch in BATCHES:
            kernels = costs(plan, batch).kernels
            (found,) = (each.each for each in kernels if "latent_decode" in each.work.kernel)
            shown += f"{found.seconds * 1e6:9.1f} {found.bound:6}"
        print(f"{name:10}{each_token:17,}{shown}")


def main() -> None:
    """Capture, lower all forms, then print."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layers", nargs="?", type=int, default=61, help="of the main model")
    parser.add_argument("--heads", type=int, default=128, help="of attention, on this chip")
    options = parser.parse_args()
    layers = options.layers
    program = captured_v3(layers, options.heads)
    plans: dict[str, LaunchPlan] = {}
    for name, quant in FORMS.items():
        start = time.perf_counter()
        plans[name] = lowered_plan(program, quant)
        print(f"{name}, {layers} layers, {TARGET.name}: {launches_of(plans[name])}; ", end="")
        print(f"compiled in {time.perf_counter() - start:.1f} s")
    show_batches(plans, BATCHES, CONTEXT)
    show_batches(plans, LARGE_BATCHES, SHORT_CONTEXT)
    show_products(plans)
    show_caches(plans)
    show_kernels(plans["w4a8"])


if __name__ == "__main__":
    main()
