"""``ascendfx golden``: freeze what a model compiles to, and compare later."""

import sys
from pathlib import Path

import click

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.golden.check_golden import Checked, check_golden, recorded_subject
from ascendfx.runtime.golden.make_golden import Subject
from ascendfx.runtime.golden.record_golden import record_golden
from ascendfx.runtime.limits import Limits


@click.group()
def golden() -> None:
    """Freeze programs, kernels and outputs of a model, and compare later versions with them."""


@golden.command()
@click.argument("model", type=click.Path(path_type=Path))
@click.option(
    "-o",
    "--output",
    type=click.Path(file_okay=False, path_type=Path),
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
@options.max_batch
@options.max_context
@options.prefill_chunk
@options.cache_blocks
@options.strategy
def record(
    model: Path,
    output: Path,
    prompts: tuple[str, ...],
    new_tokens: int,
    target: str,
    dtype: str | None,
    max_batch: int,
    max_context: int,
    prefill_chunk: int,
    cache_blocks: int | None,
    strategy: str,
) -> None:
    """Compile the Hugging Face directory MODEL and freeze what comes out.

    Without -p it is run on two random texts. Refused if the outputs break the fidelity that the
    passes declare.
    """
    subject = Subject(
        model,
        target,
        dtype,
        Limits(max_batch, max_context, prefill_chunk, cache_blocks),
        strategy,
        tokens=_encoded(model, prompts),
        new_tokens=new_tokens,
    )
    with terminal_progress() as progress:
        made = record_golden(subject, output, progress=progress)
    texts = len(made.golden.header.tokens)
    kernels = {kernel.name for plan in made.compiled.plans.values() for kernel in plan.kernels}
    click.echo(f"{output}: {len(kernels)} kernels, outputs of {texts} texts")


def _encoded(model: Path, prompts: tuple[str, ...]) -> list[list[int]] | None:
    if not prompts:
        return None
    file = model / "tokenizer.json"
    if not file.is_file():
        raise GraphError(
            "no-tokenizer",
            f"{model} has no tokenizer.json, so that texts cannot be read",
            hint="leave out -p: random tokens are recorded",
        )
    codec = TextCodec(file)
    return [codec.encode(prompt) for prompt in prompts]


@golden.command()
@click.argument("directory", metavar="GOLDEN", type=click.Path(path_type=Path))
@click.option(
    "--model",
    type=click.Path(file_okay=False, path_type=Path),
    default=None,
    help="Compile this model directory; default: the recorded one.",
)
@click.option("--update", is_flag=True, help="Show what differs, then rewrite GOLDEN.")
def check(directory: Path, model: Path | None, *, update: bool) -> None:
    """Compile again as recorded in GOLDEN and compare.

    Programs, plans and kernels must be the same text; outputs may differ by what rounding explains.
    Prints which pass, operation and value moved, and by how much against float64. Exit code 1 if
    anything differs, unless --update accepts it.
    """
    with terminal_progress() as progress:
        found = check_golden(
            directory,
            lambda recorded: recorded_subject(recorded, model),
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
