"""``ascendfx demo``: the main job on the bundled model, checked against golden tokens."""

import json
import sys
import time
from pathlib import Path

import click

from ascendfx.find_bundled_model import bundled_model
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.option_words import wrong_options
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.start_engine import start_engine


@click.command(short_help="Compile the bundled model, generate, compare with golden tokens.")
@options.target
@options.executor
@options.draft_tokens
@options.draft_tree
@options.dump_dir
@options.kernel_cache
def demo(
    target: str,
    executor: str,
    draft_tokens: int,
    draft_tree: tuple[int, ...],
    dump_dir: Path | None,
    kernel_cache: Path | None,
) -> None:
    """Compile the bundled trained model, generate with its kernels, compare with golden tokens.

    The golden tokens are those of transformers, eager, float32. Times are of the emulator on this
    machine; they say nothing about the chip.
    """
    with wrong_options():
        limits = Limits(draft_tokens=draft_tokens, draft_tree=draft_tree)
    golden = json.loads((bundled_model() / "golden_generations.json").read_text(encoding="utf-8"))
    items = golden["items"]
    start = time.perf_counter()
    with terminal_progress() as progress:
        compiled = compile_model(
            bundled_model(),
            target,
            dtype="float32",
            limits=limits,
            dump_dir=dump_dir,
            trace_folder=trace_folder_of(kernel_cache),
            progress=progress,
        )
        engine = start_engine(compiled, executor, kernel_cache=kernel_cache, progress=progress)
        ready = time.perf_counter()
        length = max(len(item["output_ids"]) for item in items)
        results = engine.generate(
            [item["prompt_ids"] for item in items],
            max_new_tokens=length,
            min_new_tokens=length,
            progress=lambda done, total: progress("tokens", done, total),
        )
    finished = time.perf_counter()
    for item, result in zip(items, results, strict=True):
        click.echo(f"{item['prompt']}{result.text}\n")
    plans = ", ".join(
        f"{name} {len(plan.launches)} launches of {len(plan.kernels)} kernels"
        for name, plan in compiled.plans.items()
    )
    click.echo(f"target {compiled.target.name}: {plans}")
    total = sum(len(item["output_ids"]) for item in items)
    click.echo(
        f"compiled in {ready - start:.1f} s, generated {total} tokens in {finished - ready:.1f} s "
        f"({executor} on this machine)"
    )
    if engine.metrics.acceptance:
        tree = f" in a tree of {','.join(map(str, draft_tree))}" if draft_tree else ""
        shares = ", ".join(f"{share:.0%}" for share in engine.metrics.acceptance)
        click.echo(
            f"{engine.metrics.tokens_per_step:.2f} tokens per step of a request with "
            f"{len(engine.metrics.acceptance)} draft tokens{tree}; accepted by position: {shares}"
        )
    right = sum(
        a == b
        for item, result in zip(items, results, strict=True)
        for a, b in zip(item["output_ids"], result.token_ids, strict=True)
    )
    click.echo(f"golden tokens: {right}/{total}")
    if right != total:
        sys.exit(1)
