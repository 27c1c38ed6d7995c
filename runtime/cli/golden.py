"""``ascendfx golden``: freeze what a model compiles to, and compare later."""

import sys
from dataclasses import replace
from pathlib import Path

import click

from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.counted import counted
from ascendfx.runtime.cli.encoded_prompts import encoded_prompts
from ascendfx.runtime.cli.limit_options import limit_options, refuse_idle_limits
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.golden.check_golden import Checked, check_golden, recorded_subject
from ascendfx.runtime.golden.make_golden import Subject
from ascendfx.runtime.golden.record_golden import record_golden
from ascendfx.runtime.limits import Limits


@click.group(short_help="Freeze what a model compiles to, and compare later.")
def golden() -> None:
    """Freeze programs, kernels and outputs of a model, and compare later versions with them."""


@golden.command(short_help="Compile a model directory and freeze what comes out.")
@click.argument("model", type=UserPath())
@click.option(
    "-o",
    "--output",
    type=UserPath(file_okay=False),
    required=True,
    help="The golden directory; it must not exist.",
)
@click.option("-p", "--prompt", "prompts", multiple=True, help="A text to run on; repeatable.")
@click.option(
    "--execute",
    "new_tokens",
    type=click.IntRange(min=0),
    default=0,
    show_default=True,
    metavar="N",
    help="Let the emitted kernels generate N tokens of each text in the emulator.",
)
@options.target
@options.dtype
@limit_options
@options.draft_chaining
@options.strategy
@options.kernel_cache
def record(
    model: Path,
    output: Path,
    prompts: tuple[str, ...],
    new_tokens: int,
    target: str,
    dtype: str | None,
    limits: Limits,
    draft_chaining: str,
    strategy: str,
    kernel_cache: Path | None,
) -> None:
    """Compile the Hugging Face directory MODEL and freeze what comes out.

    Without -p it is run on two random texts. Refused if the outputs break the fidelity that the
    passes declare.
    """
    refuse_idle_limits(limits)
    subject = Subject(
        model,
        target,
        dtype,
        limits,
        strategy,
        draft_chaining=draft_chaining,
        tokens=_encoded(model, prompts),
        new_tokens=new_tokens,
        kernel_cache=kernel_cache,
    )
    with terminal_progress() as progress:
        made = record_golden(subject, output, progress=progress)
    texts = len(made.golden.header.tokens)
    kernels = {kernel.name for plan in made.compiled.plans.values() for kernel in plan.kernels}
    click.echo(f"{output}: {counted(len(kernels), 'kernel')}, outputs of {counted(texts, 'text')}")


def _encoded(model: Path, prompts: tuple[str, ...]) -> list[list[int]] | None:
    if not prompts:
        return None
    without = "leave out -p: random tokens are recorded"
    return encoded_prompts(model, prompts, instead=without)


@golden.command()
@click.argument("directory", metavar="GOLDEN", type=UserPath())
@click.option(
    "--model",
    type=UserPath(file_okay=False),
    default=None,
    help="Compile this model directory; default: the recorded one.",
)
@click.option("--update", is_flag=True, help="Show what differs, then rewrite GOLDEN.")
@options.kernel_cache
def check(directory: Path, model: Path | None, kernel_cache: Path | None, *, update: bool) -> None:
    """Compile again as recorded in GOLDEN and compare.

    Programs, plans and kernels must be the same text; outputs may differ by what rounding explains.
    Prints which pass, operation and value moved, and by how much against float64. Exit code 1 if
    anything differs, unless --update accepts it.
    """
    with terminal_progress() as progress:
        found = check_golden(
            directory,
            lambda recorded: replace(recorded_subject(recorded, model), kernel_cache=kernel_cache),
            update=update,
            tell=_tell,
            progress=progress,
        )
    if not found.changes:
        click.echo(f"{directory}: as recorded")
    elif update:
        click.echo(f"{directory}: rewritten")
    else:
        sys.exit(1)


def _tell(found: Checked) -> None:
    for line in found.lines:
        click.echo(line)
