"""``ascendfx reduce``: the smallest case of the first mistake in a dump."""

import sys
from pathlib import Path

import click

from ascendfx.passes.reduction.case import computing_nodes
from ascendfx.runtime.cli import options, weights_options
from ascendfx.runtime.cli.bisect import culprit_lines
from ascendfx.runtime.cli.counted import counted
from ascendfx.runtime.cli.output_file import prepare_output
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.cli.weights_options import weights_and_tokens
from ascendfx.runtime.dumps.bisect_dump import captured_drafts, captured_program
from ascendfx.runtime.dumps.case_file import write_case
from ascendfx.runtime.dumps.lost_passes import lost_passes
from ascendfx.runtime.dumps.read_dump import read_dump
from ascendfx.runtime.dumps.recorded_verdict import recorded_verdict
from ascendfx.runtime.dumps.reduce_dump import reduce_dump


@click.command("reduce", short_help="Make a small case of the first mistake in a dump.")
@click.argument("dump", type=UserPath())
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    required=True,
    help="File of the case: JSON, mostly a few KB; more if the mistake needs large tensors.",
)
@weights_options.checkpoint
@weights_options.random_seed
@weights_options.tokens_seed
@options.verify_tokens
@options.allow_code
def reduce_command(
    dump: Path,
    output: Path,
    checkpoint: Path | None,
    random_seed: int | None,
    tokens_seed: int,
    verify_length: int | None,
    *,
    allow_code: bool,
) -> None:
    """Make a small case of the first mistake in the dump directory DUMP.

    The pass that `ascendfx bisect` finds is run again on ever fewer nodes, shorter axes and plainer
    numbers. If it cannot be imported here, the programs before and after are cut between values on
    which they agree. `ascendfx replay` runs the case anywhere. Exit code 1 if there is no mistake.
    """
    prepare_output(output, dump)
    read = read_dump(dump)
    programs = captured_program(read), *captured_drafts(read)
    seeds = random_seed, tokens_seed
    weights, tokens = weights_and_tokens(read, programs, checkpoint, seeds, verify_length)
    click.echo(f"the dump says: {recorded_verdict(read)}; comparing (minutes)", err=True)
    for name, error in lost_passes(read, allow_code=allow_code):
        click.echo(f"pass `{name}` cannot be run again: {error.reason}", err=True)
        click.echo(
            f"hint: {error.hint}; without it programs before and after it are cut instead", err=True
        )
    with terminal_progress() as progress:
        found = reduce_dump(read, weights, tokens, allow_code=allow_code, progress=progress)
    if found is None:
        click.echo("every pass keeps its fidelity; there is nothing to reduce")
        sys.exit(1)
    entry, reduced = found.culprit.entry, found.reduced
    origin = {
        "dump": dump.resolve().name,
        "stage": found.culprit.stage.name,
        "number": entry.number,
        "rule": found.culprit.rule,
    }
    write_case(output, reduced, entry.form, entry.fidelity, origin)
    click.echo("\n".join(culprit_lines(found.culprit)))
    click.echo(
        f"{output}: {counted(reduced.case.nodes, 'node')} before, "
        f"{computing_nodes(reduced.after)} after, "
        f"difference {reduced.observed.max:.3g}, rounding explains {reduced.observed.bound:.3g}; "
        f"{output.stat().st_size / 1000:.1f} KB"
    )
