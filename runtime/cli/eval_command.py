"""``ascendfx eval``: how well a model predicts and answers, beside the one it was made of."""

import os
import sys
from collections.abc import Generator
from contextlib import contextmanager
from pathlib import Path

import click

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.insertion.chosen_lines import PRESETS
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.eval_workers import run_workers
from ascendfx.runtime.cli.idle_options import refuse_idle
from ascendfx.runtime.cli.output_file import prepare_output
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.evaluate.evaluate import WAYS, EvaluationOptions, evaluate
from ascendfx.runtime.evaluate.open_model import ModelOptions, lines_of_recipe, open_model
from ascendfx.runtime.evaluate.report import EvaluationReport
from ascendfx.runtime.evaluate.run_program import CodeLimits
from ascendfx.runtime.evaluate.tasks import HARNESS, TASKS, check_tasks
from ascendfx.runtime.evaluate.workers import BACKENDS, Workers, join_group
from ascendfx.runtime.limits import MOST_DRAFTS
from ascendfx.runtime.progress import silent

_SHOWN = 12
"""Remarks that are printed; all are in the JSON."""


@click.command(name="eval", short_help="Measure how well a model predicts and answers.")
@click.argument("model", type=UserPath())
@click.option(
    "--float",
    "truth",
    type=UserPath(),
    default=None,
    metavar="MODEL",
    help="The model that it was made of: KL, top-1 agreement and every figure beside its own.",
)
@click.option(
    "-d",
    "--data",
    "files",
    type=UserPath(dir_okay=False),
    multiple=True,
    metavar="FILE",
    help="A set, one JSON object per line; repeatable.",
)
@click.option(
    "--task",
    "tasks",
    multiple=True,
    metavar="NAME",
    help=f"Only this task; repeatable: {', '.join(TASKS)}, or {HARNESS}NAME. Default: what each "
    "row names, or the first that it fits.",
)
@click.option(
    "--quant",
    metavar="PRESET",
    default=None,
    help=f"Evaluate what `ascendfx compile --quant` makes of MODEL: {', '.join(PRESETS)}.",
)
@click.option(
    "-r",
    "--recipe",
    "recipe",
    metavar="NAME|FILE",
    default=None,
    help="As --quant, of a recipe of `ascendfx quantize` whose codes are rounded to nearest; what "
    "other algorithms choose is in the directory that it writes.",
)
@click.option(
    "--executor",
    type=click.Choice(["reference", "emulator"]),
    default="reference",
    show_default=True,
    help="Interpret MODEL in float64, or run its kernels on the CPU; a package always does that.",
)
@options.dtype
@click.option(
    "--draft-tokens",
    type=click.IntRange(0, MOST_DRAFTS),
    default=0,
    show_default=True,
    metavar="K",
    help="With --executor emulator: answers tell how many of so many drafts were accepted.",
)
@click.option(
    "--limit", type=click.IntRange(min=1), default=None, metavar="N", help="Rows of each set."
)
@click.option(
    "--window",
    type=click.IntRange(min=2),
    default=None,
    metavar="N",
    help="Texts of perplexity are cut into so many tokens; default: as many as the model reads.",
)
@click.option(
    "--max-new-tokens",
    "new_tokens",
    type=click.IntRange(min=1),
    default=48,
    show_default=True,
    metavar="N",
    help="Tokens of an answer.",
)
@click.option(
    "--execute-code",
    is_flag=True,
    help="Run programs that the model writes, with the tests of the set, in processes with limits "
    "of time and memory. This is no sandbox.",
)
@click.option(
    "-o",
    "--output",
    type=UserPath(dir_okay=False),
    default=None,
    metavar="FILE",
    help="Write all figures as JSON, too.",
)
@click.option("--json", "as_json", is_flag=True, help="Print JSON in place of tables.")
@click.option(
    "--world-size",
    type=click.IntRange(1, 256),
    default=1,
    show_default=True,
    metavar="N",
    help="Processes on this machine; under torchrun, its own. Numbers are the same for any.",
)
@click.option(
    "--parallel",
    "way",
    type=click.Choice(WAYS),
    default=WAYS[0],
    show_default=True,
    help="Each process has samples of its own, or some layers.",
)
@click.option(
    "--backend",
    type=click.Choice(list(BACKENDS)),
    default="gloo",
    show_default=True,
    help="How processes talk: gloo on CPUs, hccl on Ascend.",
)
@options.kernel_cache
@click.option("--rank", type=int, default=None, hidden=True)
@click.option("--meeting", type=UserPath(), default=None, hidden=True)
def eval_command(  # an argument for each option
    model: Path,
    truth: Path | None,
    files: tuple[Path, ...],
    tasks: tuple[str, ...],
    quant: str | None,
    recipe: str | None,
    executor: str,
    dtype: str | None,
    draft_tokens: int,
    limit: int | None,
    window: int | None,
    new_tokens: int,
    output: Path | None,
    world_size: int,
    way: str,
    backend: str,
    kernel_cache: Path | None,
    rank: int | None,
    meeting: Path | None,
    *,
    execute_code: bool,
    as_json: bool,
) -> None:
    """Measure MODEL on sets of samples: figures of all, by language and by kind.

    MODEL is a Hugging Face directory, quantized or not, or a package. Rows of a set have fields by
    task: `text` (perplexity, garbled); `prompt`, `choices`, `answer` (choice); `statement` and
    true or false as `answer` (true-false); `question`, `answers` (qa); `question` and a number as
    `answer` (maths); `prompt`, `tests` (code); `language` and `kind` for the report.

    Exit code 1 says that the input was at fault, or that garbled answers were found.
    """
    if not files and not any(name.startswith(HARNESS) for name in tasks):
        raise click.UsageError("no set: pass --data FILE")
    if executor == "reference":
        refuse_idle(("draft_tokens",), "with --executor reference", "take --executor emulator")
    if quant is not None and recipe is not None:
        raise click.UsageError("pass --quant or --recipe, not both")
    check_tasks(tasks)
    lines = quant if recipe is None else lines_of_recipe(recipe, model)
    if output:
        prepare_output(output, model)
    spawned = rank is not None and meeting is not None
    if world_size > 1 and not spawned:
        sys.exit(run_workers(world_size, sys.argv[1:]))
    chosen = EvaluationOptions(
        tasks, limit, window, new_tokens, CodeLimits() if execute_code else None, way
    )
    how = ModelOptions(executor, lines, dtype, draft_tokens, kernel_cache=kernel_cache)
    plain = ModelOptions(dtype=dtype, kernel_cache=kernel_cache)
    with _group(rank, world_size, meeting, backend) as workers, terminal_progress() as bars:
        first = workers is None or workers.rank == 0
        progress = bars if first else silent
        try:
            own = open_model(model, how, progress=progress)
            other = open_model(truth, plain, like=own, progress=progress) if truth else None
            report = evaluate(
                own,
                files,
                truth=other,
                options=chosen,
                workers=workers,
                progress=progress,
            )
        except GraphError:
            if first:
                raise
            sys.exit(1)
    if first:
        _tell(report, output, as_json=as_json)
    if report.garbled:
        sys.exit(1)


@contextmanager
def _group(
    rank: int | None, size: int, meeting: Path | None, backend: str
) -> Generator[Workers | None]:
    """Yield the processes of this evaluation; None: this one is alone."""
    if rank is None and int(os.environ.get("WORLD_SIZE", "1")) < 2:  # torchrun sets it
        yield None
        return
    group = join_group(rank, size, meeting=meeting, backend=backend)
    try:
        yield group
    finally:
        group.leave()


def _tell(report: EvaluationReport, output: Path | None, *, as_json: bool) -> None:
    if output:
        report.write(output)
    if as_json:
        click.echo(report.text(), nl=False)
    else:
        for line in report.table():
            click.echo(line)
    for line in report.remarks[:_SHOWN]:
        click.echo(line, err=True)
    if len(report.remarks) > _SHOWN:
        click.echo(f"... {len(report.remarks) - _SHOWN} more remarks", err=True)
    if report.garbled:
        click.echo("answers are garbled: see the task `garbled`", err=True)
