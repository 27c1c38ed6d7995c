"""``ascendfx compare``: where two runs part."""

import sys
from pathlib import Path

import click

from ascendfx.runtime.cli.encoded_prompts import encoded_prompts
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.dumps.compare_tensors import (
    Compared,
    compare_dumps,
    compare_lines,
    first_divergence,
)
from ascendfx.runtime.dumps.eager_run import compare_with_eager
from ascendfx.runtime.dumps.tensor_dump import read_tensors_file


@click.command(short_help="Show where two runs part, or ours and eager PyTorch.")
@click.argument("one", type=UserPath())
@click.argument("other", type=UserPath(), required=False)
@click.option("--eager", is_flag=True, help="Compare a model directory with eager PyTorch.")
@click.option("-p", "--prompt", "prompts", multiple=True, help="The text for --eager; one.")
@click.option("--all", "everything", is_flag=True, help="Print every value, not layers alone.")
def compare(
    one: Path, other: Path | None, prompts: tuple[str, ...], *, eager: bool, everything: bool
) -> None:
    """Compare two tensor dumps, ONE and OTHER, or the model directory ONE with eager PyTorch.

    Files of equal programs are compared value by value, others by module path. Prints how the error
    grows from layer to layer, what has no counterpart, and the first value that the rounding of
    float64 does not explain. Exit code 1 if there is one.
    """
    if eager == (other is not None):
        raise click.UsageError("pass two tensor dumps, or a model directory and --eager")
    if eager:
        if not prompts:
            raise click.UsageError("--eager needs a text: -p TEXT")
        if len(prompts) > 1:
            raise click.UsageError(
                f"--eager compares one text, got {len(prompts)}: run it for each"
            )
        (tokens,) = encoded_prompts(one, prompts, instead="get tokenizer.json of the model")
        with terminal_progress() as progress:
            found = compare_with_eager(one, tokens, progress=progress)
    else:
        if prompts:
            raise click.UsageError("-p belongs to --eager: tensor dumps hold their texts")
        assert other is not None  # noqa: S101  # checked above
        found = compare_dumps(read_tensors_file(one), read_tensors_file(other))
    values = found.values
    click.echo("\n".join(compare_lines(values if everything else _layers(values))))
    if found.not_compared:
        click.echo(f"not compared: {', '.join(found.not_compared)}")
    first = first_divergence(values)
    if first is None:
        click.echo(found.verdict)
        return
    click.echo(
        f"first divergence: {first.name}: {first.max:.3g}, rounding explains {first.rounding:.3g}"
    )
    sys.exit(1)


def _layers(found: list[Compared]) -> list[Compared]:
    """Return the values of the fewest path parts that still tell layers apart, if any do."""
    layers = [each for each in found if each.name.rpartition(".")[2].isdecimal()]
    outer = [each for each in found if "." not in each.name]
    return (layers + outer) if layers and " " not in found[0].name else found
