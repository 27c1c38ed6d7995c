"""Options that would change nothing beside the others: refused, not ignored."""

from collections.abc import Collection

import click
from click.core import ParameterSource

from ascendfx.runtime.cli.option_words import long_name


def refuse_idle(names: Collection[str], where: str, instead: str) -> None:
    """Refuse options of the command that runs, if its user wrote them.

    Args:
        names: Of the parameters.
        where: Beside what they change nothing: ``without --verify``.
        instead: What to do but leaving them out.

    Raises:
        click.UsageError: One of them was written.
    """
    context = click.get_current_context()
    for parameter in context.command.params:
        if parameter.name in names and _is_written(context, str(parameter.name)):
            shown = "/".join((long_name(parameter), *parameter.secondary_opts))
            raise click.UsageError(
                f"{shown} changes nothing {where}: {instead}, or leave {shown} out"
            )


def _is_written(context: click.Context, name: str) -> bool:
    return context.get_parameter_source(name) is ParameterSource.COMMANDLINE
