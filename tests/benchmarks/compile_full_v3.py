"""Compile DeepSeek-V3 at full size on meta tensors: capture to launch plan and kernel texts.

    python tests/benchmarks/compile_full_v3.py [LAYERS ...]        default: 16 61

Each size runs in a process of its own, so that its peak memory can be read.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

BATCH, CONTEXT = 32, 4096


def compile_one(layers: int) -> dict[str, float]:
    """Return seconds, peak GiB and counts for a V3 with ``layers`` layers."""
    import torch  # noqa: PLC0415  # only the child needs it
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM  # noqa: PLC0415

    from ascendfx.runtime.compile_model import compile_model  # noqa: PLC0415
    from ascendfx.runtime.limits import Limits  # noqa: PLC0415

    # The defaults of DeepseekV3Config are those of the published checkpoint.
    config = DeepseekV3Config(num_hidden_layers=layers, torch_dtype="bfloat16")
    with torch.device("meta"):
        model = DeepseekV3ForCausalLM(config).to(torch.bfloat16).eval()
    parameters = sum(p.numel() for p in model.parameters())
    start = time.perf_counter()
    limits = Limits(max_batch=BATCH, max_context=CONTEXT)
    compiled = compile_model(model, "ascend910b", limits=limits, plans=("decode",))
    seconds = time.perf_counter() - start
    plan = compiled.plans["decode"]
    return {
        "layers": layers,
        "parameters": parameters,
        "seconds": round(seconds, 1),
        "peak_gib": round(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20, 2),
        "kernels": len(plan.kernels),
        "launches": len(plan.launches),
        "kernel_text_bytes": sum(len(kernel.source) for kernel in plan.kernels),
        "arena_mib": round(plan.arena_bytes / 2**20, 1),
    }


def main() -> None:
    """Run every size and print the figures and the growth."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("layers", nargs="*", type=int, default=[16, 61], help="sizes of the model")
    parser.add_argument("--child", type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.child is not None:
        print(json.dumps(compile_one(options.child)))
        return
    results = []
    for layers in options.layers:
        done = subprocess.run(
            [sys.executable, __file__, "--child", str(layers)],
            check=True,
            stdout=subprocess.PIPE,
            text=True,
        )
        results.append(json.loads(done.stdout.splitlines()[-1]))
        print(", ".join(f"{key} {value}" for key, value in results[-1].items()), flush=True)
    first, last = results[0], results[-1]
    if first is not last:
        print(
            f"layers x{last['layers'] / first['layers']:.2f}, "
            f"seconds x{last['seconds'] / first['seconds']:.2f}"
        )


if __name__ == "__main__":
    main()
