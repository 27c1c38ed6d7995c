"""``ascendfx prune``: a model directory with fewer routed experts."""

from pathlib import Path

import click

from ascendfx.quant_passes.policy.recipe import Calibration, TextShare
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.idle_options import refuse_idle
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.quantize.prune_directory import WORTHS, PrunedLayer, Worth, prune_directory


@click.command(short_help="Write a model with fewer routed experts.")
@click.argument("directory", type=UserPath())
@click.option(
    "--keep",
    "count",
    type=click.IntRange(min=1),
    required=True,
    metavar="N",
    help="Routed experts of each layer that stay, as many of each group.",
)
@click.option(
    "-o", "--output", type=UserPath(file_okay=False), required=True, help="The directory to be."
)
@click.option(
    "--by",
    "worth",
    type=click.Choice(WORTHS),
    default=WORTHS[0],
    show_default=True,
    help="reap: what an expert adds to a token that chooses it; frequency: how often it is chosen; "
    "norm: its weights, without texts.",
)
@click.option(
    "--texts",
    type=UserPath(dir_okay=False),
    multiple=True,
    help="Texts by which experts are judged; repeatable.",
)
@click.option(
    "--tokens",
    type=click.IntRange(min=1),
    default=32768,
    show_default=True,
    metavar="N",
    help="Of texts.",
)
@options.kernel_cache
def prune(
    directory: Path,
    count: int,
    output: Path,
    worth: Worth,
    texts: tuple[Path, ...],
    tokens: int,
    kernel_cache: Path | None,
) -> None:
    """Write the weights of the Hugging Face directory DIRECTORY without some routed experts.

    Rows and biases of the router go with their experts. `ascendfx quantize` takes what is written.
    """
    if worth == "norm":
        beside = "with --by norm, which looks at weights alone"
        refuse_idle(("texts", "tokens"), beside, "take another --by")
    sets = Calibration(tuple(map(TextShare, texts)), tokens=tokens)
    with terminal_progress() as progress:
        made = prune_directory(
            directory,
            count,
            output,
            worth=worth,
            calibration=sets,
            trace_folder=trace_folder_of(kernel_cache),
            progress=progress,
        )
    for each in made.layers:
        click.echo(_told(each, worth), err=True)
    click.echo(f"{made.written.directory}: {made.written.bytes:,} bytes")


def _told(layer: PrunedLayer, worth: Worth) -> str:
    kept = ", ".join(map(str, layer.kept))
    without = "judged by norms" if worth == "norm" else "judged by norms: no text reaches it"
    share = without if layer.share is None else f"{layer.share:.1%} of the choices"
    extreme = f"; extreme: {', '.join(map(str, layer.protected))}" if layer.protected else ""
    return f"{layer.layer}: {kept} stay, {share}{extreme}"
