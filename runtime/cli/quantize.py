"""``ascendfx quantize``: a model directory becomes a quantized one."""

from dataclasses import replace
from pathlib import Path

import click

from ascendfx.quant_passes.calibration.mixture import Mixture
from ascendfx.quant_passes.policy.recipe import Recipe, TextShare
from ascendfx.quant_passes.policy.shipped import recipe_named, recipe_names
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.counted import counted
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.quantize.forms import FORMS
from ascendfx.runtime.quantize.quantize_directory import (
    QuantizationEstimate,
    estimate_quantization,
    quantize_directory,
)

_SHOWN = 20
"""Remarks that are printed; the others are counted."""


@click.command(short_help="Quantize a model directory by a recipe.")
@click.argument("directory", type=UserPath())
@click.option(
    "-r",
    "--recipe",
    "recipe_name",
    required=True,
    metavar="NAME|FILE",
    help=f"What becomes of which weight: {', '.join(recipe_names())}, or a file that ends in "
    ".yaml.",
)
@click.option(
    "-o",
    "--output",
    type=UserPath(file_okay=False),
    default=None,
    help="The directory to be; a run that was stopped is gone on with.",
)
@click.option(
    "-f",
    "--format",
    "form",
    type=click.Choice(FORMS),
    default=FORMS[0],
    show_default=True,
    help="ascend: msModelSlim's, for vllm-ascend; compressed-tensors: for vLLM; hf: the numbers "
    "that the codes stand for.",
)
@click.option(
    "--texts",
    type=UserPath(dir_okay=False),
    multiple=True,
    help="Texts for calibration in place of those of the recipe, in equal parts; repeatable.",
)
@click.option("--dry-run", "dry", is_flag=True, help="Say what would be written, and stop.")
@options.kernel_cache
def quantize(
    directory: Path,
    recipe_name: str,
    output: Path | None,
    form: str,
    texts: tuple[Path, ...],
    kernel_cache: Path | None,
    *,
    dry: bool,
) -> None:
    """Write the weights of the Hugging Face directory DIRECTORY as a recipe says."""
    recipe = _with_texts(recipe_named(recipe_name), texts)
    if dry:
        _print_estimate(estimate_quantization(directory, recipe, form=form))
        return
    if output is None:
        raise click.UsageError("Missing option '-o' / '--output', or --dry-run.")
    folder = trace_folder_of(kernel_cache)
    with terminal_progress() as progress:
        made = quantize_directory(
            directory, recipe, output, form=form, trace_folder=folder, progress=progress
        )
    _print_mixture(made.mixture)
    for each in made.experts:
        click.echo(str(each), err=True)
    told = [f"{name}: {each}" for name, remarks in made.remarks.items() for each in remarks]
    for line in told[:_SHOWN]:
        click.echo(line, err=True)
    if len(told) > _SHOWN:
        click.echo(f"... {counted(len(told) - _SHOWN, 'more remark')}", err=True)
    kept = (
        f", {counted(made.written.kept, 'weight')} from an earlier run" if made.written.kept else ""
    )
    click.echo(f"{made.written.directory}: {made.written.bytes:,} bytes{kept}")


def _with_texts(recipe: Recipe, texts: tuple[Path, ...]) -> Recipe:
    if not texts:
        return recipe
    if not recipe.needs:
        raise click.UsageError(f"--texts: recipe `{recipe.name}` needs no data.")
    sets = tuple(TextShare(file) for file in texts)
    return replace(recipe, calibration=replace(recipe.calibration, texts=sets))


def _print_estimate(estimate: QuantizationEstimate) -> None:
    _print_mixture(estimate.mixture)
    rows = [("kind", "tensors", "weights", "bytes", "seconds")]
    rows += [
        (
            each.kind,
            f"{each.tensors:,}",
            f"{each.weights:,}",
            f"{each.bytes:,}",
            f"{each.seconds:.1f}",
        )
        for each in estimate.run.kinds
    ]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    for kind, *numbers in rows:
        cells = (word.rjust(width) for word, width in zip(numbers, widths[1:], strict=True))
        click.echo("  ".join((kind.ljust(widths[0]), *cells)))
    run = estimate.run
    click.echo(f"{counted(run.files, 'file')}, {run.bytes:,} bytes, about {run.seconds:.1f} s")
    if estimate.mixture is not None:
        click.echo("calibration comes on top, and what algorithms do with it", err=True)
    for line in estimate.idle:
        click.echo(f"no weight is left for {', '.join(line.match)} at {line.location}", err=True)


def _print_mixture(mixture: Mixture | None) -> None:
    if mixture is None:
        return
    for line in (*mixture.table(), *mixture.remarks):
        click.echo(line, err=True)
