"""``ascendfx replay``: does a case still show its mistake."""

import sys
from pathlib import Path

import click

from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.reduction.case import Observed, computing_nodes
from ascendfx.runtime.cli import options
from ascendfx.runtime.cli.counted import counted
from ascendfx.runtime.cli.read_text import read_text
from ascendfx.runtime.cli.user_path import UserPath
from ascendfx.runtime.dumps.case_file import not_a_case, read_case, replay


@click.command("replay", short_help="Run a case again: is the mistake still there?")
@click.argument("file", type=UserPath())
@options.allow_code
def replay_command(file: Path, *, allow_code: bool) -> None:
    """Run the case in FILE, which `ascendfx reduce` wrote; it needs no model and no weights.

    Says whether the stored programs differ as recorded, and whether the pass of this installation
    still makes that difference. Exit code 1 if it does, or if the pass cannot be run here.
    """
    try:
        text = read_text(file)
    except GraphError as error:
        raise not_a_case(error.reason) from error
    stored = read_case(file, text)
    shown = replay(stored, allow_code=allow_code)
    case = stored.case
    click.echo(
        f"pass {stored.form.name} ({stored.form.code}), declared {stored.fidelity.value}; "
        f"{counted(case.nodes, 'node')} before, {computing_nodes(stored.after)} after"
    )
    click.echo(f"recorded: difference {_text(stored.observed)}")
    click.echo(f"stored programs: {_seen(shown.recorded)}")
    if shown.unknown:
        click.echo(f"pass of this installation: not run; {shown.unknown}")
        sys.exit(1)
    click.echo(f"pass of this installation: {_seen(shown.present)}")
    if shown.present:
        sys.exit(1)


def _seen(observed: Observed | None) -> str:
    return f"difference {_text(observed)}" if observed else "no difference"


def _text(observed: Observed) -> str:
    return f"{observed.max:.3g}, rounding explains {observed.bound:.3g}"
