"""Rewrite DeepSeek-V3 at full size, without the search: seconds of each pass.

    python tests/benchmarks/passes_full_v3.py [LAYERS]        default: 61

The model is captured on meta tensors; only the passes are timed. Exits with 1 above the limit.
"""

import argparse
import sys
import time

import torch
from transformers import DeepseekV3Config, DeepseekV3ForCausalLM

from ascendfx.codegen.ascendc.target import find_target
from ascendfx.passes.pipeline import PassRun, run_pipeline
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.presets import passes_for, serving_passes

LIMIT_SECONDS = 20.0


def show(stage: str, run: PassRun) -> None:
    """Print one line."""
    nodes = sum(len(graph.nodes) for graph in run.program.graphs)
    print(f"{stage:8} {run.name:26} {run.seconds:8.3f} s  {nodes:5} nodes", flush=True)


def main() -> int:
    """Run every stage and print the passes."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layers", nargs="?", type=int, default=61, help="of the model")
    layers = parser.parse_args().layers
    # The defaults of DeepseekV3Config are those of the published checkpoint.
    config = DeepseekV3Config(num_hidden_layers=layers, torch_dtype="bfloat16")
    with torch.device("meta"):
        model = DeepseekV3ForCausalLM(config).to(torch.bfloat16).eval()
    start = time.perf_counter()
    captured = capture_model(model)
    print(f"captured {layers} layers in {time.perf_counter() - start:.1f} s", flush=True)
    limits, target = Limits(max_batch=32, max_context=4096), find_target("ascend910b")
    start = time.perf_counter()
    serving, runs = run_pipeline(
        captured.program, serving_passes(), observe=lambda run: show("serving", run)
    )
    seconds = sum(run.seconds for run in runs)
    for plan in ("decode", "prefill"):
        passes = passes_for(plan, strategy="ordered", target=target, limits=limits)
        _, runs = run_pipeline(serving, passes, observe=lambda run, name=plan: show(name, run))
        seconds += sum(run.seconds for run in runs)
    print(f"all passes: {seconds:.2f} s (limit {LIMIT_SECONDS:.0f} s)")
    return int(seconds > LIMIT_SECONDS)


if __name__ == "__main__":
    sys.exit(main())
