"""``ascendfx compile``: a model directory becomes a package."""

from collections.abc import Sequence
from pathlib import Path

import click

from ascendfx.passes.verification.verify_pass import PassCheck, table_lines, texts_line
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.counted import counted
from ascendfx.runtime.cli.limit_options import limit_options, refuse_idle_limits
from ascendfx.runtime.cli.option_words import in_options, options_of, wrong_options
from ascendfx.runtime.cli.output_file import check_apart
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.package.one_part import one_part
from ascendfx.runtime.package.save_package import check_place, save_package
from ascendfx.runtime.start_verifier import LENGTH, TEXTS, check_mode


@click.command("compile", short_help="Compile a model directory to a package.")
@click.argument("model", type=UserPath())
@click.option(
    "-o",
    "--output",
    type=UserPath(),
    required=True,
    help="Folder of the package; it must not exist, or be an older package.",
)
@options.target
@options.dtype
@limit_options
@options.draft_chaining
@options.plans
@options.strategy
@options.quant
@options.verify
@options.verify_tokens
@options.dump_dir
@options.kernel_cache
def compile_command(
    model: Path,
    output: Path,
    target: str,
    dtype: str | None,
    limits: Limits,
    draft_chaining: str,
    plans: tuple[str, ...],
    strategy: str,
    quant: str | None,
    verify: str | None,
    verify_length: int | None,
    dump_dir: Path | None,
    kernel_cache: Path | None,
) -> None:
    """Compile the Hugging Face directory MODEL to a package of kernels, plans and weights."""
    with wrong_options():
        check_mode(verify, length=verify_length)
    refuse_idle_limits(limits, plans)
    check_place(output)
    check_apart(output, dump_dir)
    with terminal_progress() as progress:
        compiled = compile_model(
            model,
            target,
            dtype=dtype,
            limits=limits,
            strategy=strategy,
            quant=quant,
            draft_chaining=draft_chaining,
            verify=verify,
            verify_length=verify_length,
            dump_dir=dump_dir,
            trace_folder=trace_folder_of(kernel_cache),
            progress=progress,
        )
        # Both are compiled in any case: halves of a model know each other by the hash of both.
        compiled = one_part(compiled, plans)
        save_package(compiled, output, progress=progress)
    if compiled.checks:
        total = sum(check.seconds for check in compiled.checks)
        click.echo("\n".join(table_lines(compiled.checks)))
        where = texts_line(TEXTS, verify_length or LENGTH)
        click.echo(f"verified {counted(len(compiled.checks), 'pass')} {where} in {total:.1f} s")
        click.echo(not_compared(compiled.checks))
    kernels = {kernel.name for plan in compiled.plans.values() for kernel in plan.kernels}
    words = options_of(click.get_current_context().command)
    for line in compiled.remarks:
        click.echo(f"remark: {in_options(line, words)}", err=True)
    for each in compiled.searches:
        if line := each.remark_line():
            click.echo(f"remark: {line}", err=True)
        if line := each.gain_line():
            click.echo(line)
    for name, plan in compiled.plans.items():
        click.echo(
            f"{name}: {counted(len(plan.launches), 'launch')} of "
            f"{counted(len(plan.kernels), 'kernel')}, "
            f"{plan.arena_bytes:,} bytes of arena"
        )
    click.echo(f"{output}: {counted(len(kernels), 'kernel')}, {len(compiled.weights)} weights")


def not_compared(checks: Sequence[PassCheck]) -> str:
    """Return what a verification of each pass does not look at."""
    left = sum(each.left_out for each in checks)
    requests = f"{counted(left, 'request')} whose best logits are nearly equal, " if left else ""
    return f"not compared: {requests}lowering and kernels"
