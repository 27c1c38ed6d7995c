"""``ascendfx opt``: run passes on a program in text form."""

import inspect
from difflib import get_close_matches
from pathlib import Path

import click

from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.ir.verify import verify_program
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.graph_pass import ProgramPass
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import PASSES
from ascendfx.quant_passes.registry import QUANT_PASSES
from ascendfx.runtime.cli.read_text import read_text
from ascendfx.runtime.cli.user_path import UserPath

_KNOWN = {**PASSES, **QUANT_PASSES}


def _list_passes(context: click.Context, _option: click.Parameter, value: object) -> None:
    if value:
        width = max(map(len, _KNOWN))
        for name, each in sorted(_KNOWN.items()):
            click.echo(f"{name:{width}}  {described(each)}")
        context.exit()


def described(rewrite: ProgramPass) -> str:
    """Return what a pass is and does, in one line."""
    if isinstance(rewrite, ApplyRules):
        return "; ".join(f"rule  {' '.join(rule.identity.split())}" for rule in rewrite.rules)
    first = (inspect.getdoc(type(rewrite)) or "").split("\n\n", 1)[0]
    return f"pass  {' '.join(first.split())}"


@click.command(short_help="Print a program after some passes.")
@click.argument("file", type=UserPath(exists=True, dir_okay=False))
@click.option(
    "-p",
    "--passes",
    "names",
    default="",
    help="Comma-separated names, in order; --list prints all.",
)
@click.option("--stats", is_flag=True, help="Print what each pass did to standard error.")
@click.option("--remarks", is_flag=True, help="Print near misses to standard error.")
@click.option(
    "--list",
    is_flag=True,
    is_eager=True,
    expose_value=False,
    callback=_list_passes,
    help="Print all passes and rules, and what they do, and stop.",
)
def opt(file: Path, names: str, *, stats: bool, remarks: bool) -> None:
    """Print the program in FILE (.ir) after the given passes."""
    wanted = [name for each in names.split(",") if (name := each.strip())]
    for name in wanted:
        if name not in _KNOWN:
            near = get_close_matches(name, _KNOWN, n=3)
            meant = f" did you mean {' or '.join(near)}?" if near else ""
            raise click.BadParameter(
                f"no pass is called `{name}`;{meant} `ascendfx opt --list` prints all",
                param_hint="'-p' / '--passes'",
            )
    program = parse_program(read_text(file), file=str(file))
    verify_program(program)
    final, runs = run_pipeline(program, [_KNOWN[name] for name in wanted])
    click.echo(print_program(final), nl=False)
    for name, each in zip(wanted, runs, strict=True):
        if stats:
            counts = ", ".join(f"{n} {what}" for what, n in each.statistics.items()) or "no change"
            click.echo(f"{name}: {counts} ({each.seconds * 1e3:.1f} ms)", err=True)
        if remarks:
            for line in each.remarks:
                click.echo(f"{name}: {line}", err=True)
