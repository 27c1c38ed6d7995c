"""``ascendfx bisect``: which pass made the program compute something else."""

import sys
from pathlib import Path

import click

from ascendfx.passes.verification.verify_pass import table_lines, texts_line
from ascendfx.runtime.cli import options, weights_options
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.cli.weights_options import weights_and_tokens
from ascendfx.runtime.dumps.bisect_dump import (
    Culprit,
    bisect_dump,
    captured_drafts,
    captured_program,
)
from ascendfx.runtime.dumps.lost_passes import lost_passes
from ascendfx.runtime.dumps.read_dump import read_dump
from ascendfx.runtime.dumps.recorded_verdict import recorded_verdict


@click.command(short_help="Find the first pass of a dump that breaks its fidelity.")
@click.argument("dump", type=UserPath())
@weights_options.checkpoint
@weights_options.random_seed
@weights_options.tokens_seed
@options.verify_tokens
@options.allow_code
def bisect(
    dump: Path,
    checkpoint: Path | None,
    random_seed: int | None,
    tokens_seed: int,
    verify_length: int | None,
    *,
    allow_code: bool,
) -> None:
    """Find the first pass in the dump directory DUMP that breaks its fidelity.

    Every program of the dump is run in float64 on the weights of the checkpoint, layer by layer
    from the values of the captured program. Prints the error after each pass, then the pass, the
    function, the operation and the line of the model. Exit code 1 if a pass is found.
    """
    read = read_dump(dump)
    programs = captured_program(read), *captured_drafts(read)
    seeds = random_seed, tokens_seed
    weights, tokens = weights_and_tokens(read, programs, checkpoint, seeds, verify_length)
    click.echo(f"the dump says: {recorded_verdict(read)}; comparing (minutes)", err=True)
    for name, error in lost_passes(read, allow_code=allow_code):
        click.echo(f"pass `{name}` cannot be run again: {error.reason}", err=True)
        click.echo(f"hint: {error.hint}; without it no rule of it can be named", err=True)
    with terminal_progress() as progress:
        found = bisect_dump(read, weights, tokens, allow_code=allow_code, progress=progress)
    click.echo("\n".join(table_lines(found.checks)))
    click.echo(f"compared {texts_line(*tokens.shape)}")
    if found.culprit is None:
        click.echo("every pass keeps its fidelity")
        return
    click.echo("\n".join(culprit_lines(found.culprit)))
    sys.exit(1)


def culprit_lines(culprit: Culprit) -> list[str]:
    """Return what there is to say of a pass that was found."""
    check, entry = culprit.check, culprit.entry
    lines = [
        f"pass: {entry.name} ({culprit.stage.name}/{entry.file}), declared {entry.fidelity.value}",
        f"difference: {check.broken}",
    ]
    if culprit.rule:
        lines.append(f"rule: {culprit.rule}")
    if check.place:
        lines += [
            f"function: @{check.place.graph.name}",
            f"first different value: {check.place.text}",
            f"line of the model: {check.place.node.location}",
        ]
    return lines
