"""``ascendfx report``: a dump as a page for the browser."""

from pathlib import Path

import click

from ascendfx.runtime.cli.output_file import prepare_output
from ascendfx.runtime.cli.user_path import UserPath


@click.command(short_help="Write a page about a dump: passes, graphs, kernels, errors.")
@click.argument("dump", type=UserPath())
@click.option(
    "-o",
    "--output",
    metavar="FILE",
    type=click.Path(path_type=Path),
    default=Path("report.html"),
    show_default=True,
    help="The page; an older file is replaced.",
)
@click.option(
    "--metrics",
    metavar="FILE",
    type=click.Path(path_type=Path),
    help="Show how many drafts were accepted, too: what `ascendfx run --metrics FILE` wrote.",
)
def report(dump: Path, output: Path, metrics: Path | None) -> None:
    """Write a page about the dump in folder DUMP: passes, graphs, kernels, memory, errors.

    The page is one HTML file that needs no network and no other file. A dump is what
    `ascendfx compile --dump-dir DUMP` writes. Times and bytes of kernels are modelled.
    """
    if metrics and metrics.resolve() == output.resolve():
        raise click.UsageError(f"{output} would replace the file that --metrics names")
    prepare_output(output, dump)
    from ascendfx.runtime.dumps.hash_of_dump import hash_of_dump  # noqa: PLC0415  # slow to import
    from ascendfx.runtime.dumps.read_dump import read_dump  # noqa: PLC0415
    from ascendfx.runtime.engine.metrics_file import read_metrics  # noqa: PLC0415
    from ascendfx.runtime.report.read_whole_dump import read_whole_dump  # noqa: PLC0415
    from ascendfx.runtime.report.write_page import write_page  # noqa: PLC0415

    whole = read_whole_dump(dump)
    figures = read_metrics(metrics, programs=hash_of_dump(read_dump(dump))) if metrics else None
    size = write_page(whole, output, figures)
    click.echo(f"{output}: {size:,} bytes")
