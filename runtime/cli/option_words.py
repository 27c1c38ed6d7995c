"""Messages of the library in the words of the command line: options instead of arguments."""

import re
from collections.abc import Generator, Mapping
from contextlib import contextmanager
from dataclasses import replace

import click

from ascendfx.ir.diagnostic import GraphError

_CALL = re.compile(r"ascendfx\.\w+\([^)]*\), or ")
"""What to write in Python, where something else follows."""
_VALUE = r'=(?:"(?P<quoted>[^"]*)"|(?P<plain>[\w.-]*\w(?:,\d{3})*))'
_PHRASES = {
    "pass token ids": "pass token ids in Python",
    "; None for none": "",
    "verify_tokens": "a text",
    "; end others by `Engine.cancel`": "; leave some out",
}


def options_of(command: click.Command) -> dict[str, str]:
    """Return the long option by the name of its parameter, also of all subcommands.

    A parameter has the name of the argument in Python. A flag with a word for no has that under
    ``name=False``; where a flag and an option with a value share a name, the latter is meant.
    """
    found: dict[str, str] = {}
    flags: dict[str, str] = {}
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        found |= options_of(each)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name:
            (flags if parameter.is_flag else found)[parameter.name] = long_name(parameter)
            if parameter.secondary_opts:
                found[f"{parameter.name}=False"] = max(parameter.secondary_opts, key=len)
    return flags | found


def long_name(parameter: click.Parameter) -> str:
    """Return the longest name of an option."""
    return max(parameter.opts, key=len)


def in_options(text: str, options: Mapping[str, str], *, every: bool = False) -> str:
    """Return a message with ``--max-context 8`` for ``max_context=8``, and so on.

    A name of one word is an argument only where a value follows, `verify` is a verb as well; with
    ``every`` each name is one.
    """
    names = "|".join(sorted(options, key=len, reverse=True))
    argument = re.compile(rf"(?<![\w./-])(?P<name>{names})(?:{_VALUE})?(?![\w/=]|\.\w)")

    def spelled(found: re.Match[str]) -> str:
        value = found["quoted"] if found["plain"] is None else found["plain"]
        if value is None and not every and not set("_=") & set(found["name"]):
            return found[0]
        option = options[found["name"]]
        return option if value is None or "=" in found["name"] else f"{option} {value}"

    for phrase, other in _PHRASES.items():
        text = text.replace(phrase, other)
    return argument.sub(spelled, _CALL.sub("", text))


def error_in_options(error: GraphError, command: click.Command) -> GraphError:
    """Return an error as a user of ``command`` can act on it; excerpts and places stay."""
    options = options_of(command)
    return replace(
        error,
        reason=in_options(error.reason, options),
        hint=in_options(error.hint, options),
        notes=tuple(in_options(note, options) for note in error.notes),
    )


@contextmanager
def wrong_options(options: Mapping[str, str] | None = None) -> Generator[None]:
    """Turn a refusal of what options say into wrong use of the command line.

    Args:
        options: Option of each argument that a message may name, in words of any kind; None: those
            of the command that runs.

    Raises:
        click.UsageError: The library refuses an option, whatever files hold.
    """
    try:
        yield
    except GraphError as error:
        known = options_of(click.get_current_context().command) if options is None else options
        told = [in_options(text, known, every=options is not None) for text in _parts(error)]
        raise click.UsageError("\nhint: ".join(told)) from error


def _parts(error: GraphError) -> tuple[str, ...]:
    return (error.reason, error.hint) if error.hint else (error.reason,)
