"""Messages of the library in the words of the command line: options instead of arguments."""

import re
from collections.abc import Mapping
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
}


def options_of(command: click.Command) -> dict[str, str]:
    """Return the long option by the name of its parameter, also of all subcommands."""
    found: dict[str, str] = {}
    for each in command.commands.values() if isinstance(command, click.Group) else ():
        found |= options_of(each)
    for parameter in command.params:
        if isinstance(parameter, click.Option) and parameter.name:
            found[parameter.name] = max(parameter.opts, key=len)
    return found


def in_options(text: str, options: Mapping[str, str]) -> str:
    """Return a message with ``--max-context 8`` for ``max_context=8``, and so on.

    A name of one word is an argument only where a value follows: `verify` is a verb as well.
    """
    names = "|".join(sorted(options, key=len, reverse=True))
    argument = re.compile(rf"(?<![\w./-])(?P<name>{names})(?:{_VALUE})?(?![\w/=]|\.\w)")

    def spelled(found: re.Match[str]) -> str:
        value = found["quoted"] if found["plain"] is None else found["plain"]
        if value is None and "_" not in found["name"]:
            return found[0]
        option = options[found["name"]]
        return option if value is None else f"{option} {value}"

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
