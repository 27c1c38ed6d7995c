"""``ascendfx sensitivity``: what recipes do to each weight, and the best mixture in a budget."""

from dataclasses import replace
from pathlib import Path

import click

from ascendfx.codegen.ascendc.target import find_target
from ascendfx.quant_passes.mixed_precision.best_choices import Limit, best_choices, total
from ascendfx.quant_passes.mixed_precision.front_svg import front_svg
from ascendfx.quant_passes.mixed_precision.measures import IqrOfWeights
from ascendfx.quant_passes.mixed_precision.mixed_recipe import mixed_recipe_text
from ascendfx.quant_passes.mixed_precision.pareto_front import pareto_front
from ascendfx.quant_passes.policy.recipe import Calibration, Recipe, TextShare
from ascendfx.quant_passes.policy.shipped import recipe_named, recipe_names
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.idle_options import refuse_idle
from ascendfx.runtime.cli.output_file import prepare_beside
from ascendfx.runtime.cli.terminal_progress import terminal_progress
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.quantize.forms import FORMS
from ascendfx.runtime.quantize.measure_sensitivity import (
    BYTES,
    MEASURES,
    SECONDS,
    TOKEN_BYTES,
    Sensitivity,
    SensitivityOptions,
    measure_sensitivity,
)
from ascendfx.runtime.replaced_file import replacing

KEEP = "keep"
"""The recipe that keeps all formats."""


@click.command(short_help="Find the best mixture of recipes within a budget.")
@click.argument("directory", type=UserPath())
@click.option(
    "-r",
    "--recipe",
    "chosen_recipes",
    required=True,
    multiple=True,
    metavar="NAME|FILE",
    help=f"What a weight may become: {', '.join(recipe_names())}, or a file that ends in .yaml; "
    "repeatable. `keep`: its own format. The first one also decides about draft layers.",
)
@click.option(
    "--by",
    "measure",
    type=click.Choice(MEASURES),
    default=MEASURES[0],
    show_default=True,
    help="output: squared error of the outputs of each weight; kl: of the predictions, one weight "
    "at a time; iqr-weights, iqr-inputs: step of int8 over the distance of quartiles.",
)
@click.option(
    "--texts",
    type=UserPath(dir_okay=False),
    multiple=True,
    help="Texts to measure with, in place of those that a recipe names; repeatable.",
)
@click.option(
    "--tokens",
    type=click.IntRange(min=1),
    default=None,
    metavar="N",
    help="Tokens of texts.  [default: the recipe's]",
)
@click.option(
    "-f", "--format", "form", type=click.Choice(FORMS), default=FORMS[0], show_default=True,
    help="Of the checkpoint: its sizes count, and its loader decides what is chosen together.",
)  # fmt: skip
@click.option("--by-expert", is_flag=True, help="Let experts of a layer differ; for hf.")
@click.option("--max-bytes", type=click.FloatRange(min=0), metavar="N", help="Of all weights.")
@click.option(
    "--max-token-bytes",
    type=click.FloatRange(min=0),
    metavar="N",
    help="Weights that a step reads, over its tokens; of the weights that are chosen about.",
)
@click.option(
    "--max-microseconds",
    type=click.FloatRange(min=0),
    metavar="N",
    help="Modelled time of the products of a step; of the weights that are chosen about.",
)
@click.option(
    "--rows",
    type=click.IntRange(min=1),
    default=32,
    show_default=True,
    metavar="N",
    help="Tokens of a decode step.",
)
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="The best recipe in the budget, YAML.",
)
@click.option(
    "--front",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="A picture, SVG: score over what is limited, or over bytes.",
)
@options.target
@options.kernel_cache
def sensitivity(
    directory: Path,
    chosen_recipes: tuple[str, ...],
    measure: str,
    texts: tuple[Path, ...],
    tokens: int | None,
    form: str,
    max_bytes: float | None,
    max_token_bytes: float | None,
    max_microseconds: float | None,
    rows: int,
    output: Path | None,
    front: Path | None,
    target: str,
    kernel_cache: Path | None,
    *,
    by_expert: bool,
) -> None:
    """Measure what recipes do to each weight of the Hugging Face directory DIRECTORY.

    Weights that a loader reads as one are chosen about together. Prints the front: the smallest
    sum of scores for each size. With a limit, writes the recipe that `ascendfx quantize` takes.
    """
    seconds = None if max_microseconds is None else max_microseconds / 1e6
    budget = {BYTES: max_bytes, TOKEN_BYTES: max_token_bytes, SECONDS: seconds}
    wanted = {name: most for name, most in budget.items() if most is not None}
    if output is not None and not wanted:
        raise click.UsageError("-o: the recipe of which budget? Add --max-bytes or another limit.")
    for file in filter(None, (output, front)):
        prepare_beside(file, directory)
    recipes = tuple(
        Recipe(KEEP, ()) if name == KEEP else recipe_named(name) for name in chosen_recipes
    )
    if measure == IqrOfWeights.name and not any(recipe.needs for recipe in recipes):
        beside = f"with --by {measure} and recipes that need no data"
        refuse_idle(("texts", "tokens"), beside, "take another --by")
    chosen = SensitivityOptions(
        measure, form, by_expert=by_expert, rows=rows, target=find_target(target)
    )
    with terminal_progress() as progress:
        found = measure_sensitivity(
            directory,
            recipes,
            chosen,
            calibration=_calibration(recipes, texts, tokens),
            trace_folder=trace_folder_of(kernel_cache),
            progress=progress,
        )
    _print_units(found)
    limits = [found.limit(name, most) for name, most in wanted.items()]
    _print_front(found, limits, front)
    if limits:
        _choose(found, limits, directory, output)


def _calibration(
    recipes: tuple[Recipe, ...], texts: tuple[Path, ...], tokens: int | None
) -> Calibration | None:
    named = next((each.calibration for each in recipes if each.calibration.texts), None)
    found = Calibration(tuple(map(TextShare, texts))) if texts else named
    return replace(found, tokens=tokens) if found is not None and tokens else found


def _print_units(found: Sensitivity) -> None:
    for each in found.judged:
        if len(each.unit.choices) > 1:
            pairs = zip(each.unit.choices, each.scores, strict=True)
            told = ", ".join(f"{choice.name} {score:.3g}" for choice, score in pairs)
            more = f" and {len(each.unit.names) - 1} more" if len(each.unit.names) > 1 else ""
            click.echo(f"{each.unit.name}{more}: {told}", err=True)


def _print_front(found: Sensitivity, limits: list[Limit], picture: Path | None) -> None:
    name = limits[0].name if limits else BYTES
    fixed = found.fixed[name]
    points = [
        replace(each, cost=each.cost + fixed)
        for each in pareto_front(found.scores, found.costs[name], limits=limits[1:])
    ]
    click.echo(f"{name:>20}  {found.measure}")
    for each in points:
        click.echo(f"{each.cost:20,.10g}  {each.score:.6g}")
    for recipe, (cost, score) in found.uniform(name).items():
        click.echo(f"{cost:20,.10g}  {score:.6g}  {recipe} everywhere")
    if picture is not None:
        text = front_svg(points, found.uniform(name), cost=name, score=found.measure)
        _write(picture, text)


def _choose(found: Sensitivity, limits: list[Limit], directory: Path, output: Path | None) -> None:
    choices = best_choices(found.scores, limits)
    score = total(found.scores, choices)
    spent = {each.name: total(each.costs, choices) + each.fixed for each in limits}
    told = ", ".join(f"{name} {value:,.10g}" for name, value in spent.items())
    click.echo(f"best: {found.measure} {score:.6g}, {told}", err=True)
    if output is None:
        return
    head = (
        f"The best mixture for {directory} by {found.measure}: {score:.6g} in all.",
        f"It has {told}.",
        "A comment has the scores of all choices for the line below it.",
    )
    _write(
        output,
        mixed_recipe_text(found.judged, choices, found.base, measure=found.measure, head=head),
    )
    click.echo(str(output))


def _write(file: Path, text: str) -> None:
    with writing(file), replacing(file) as place:
        place.write_text(text, encoding="utf-8")
