"""No message of the library names an argument that the command line spells as an option."""

import ast
import inspect
import re
from collections.abc import Iterator
from pathlib import Path

import pytest

import ascendfx
from ascendfx import Engine, Relaxed, Request, Sampling, Typical
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.cli.option_words import in_options, options_of
from ascendfx.runtime.limits import Limits

ROOT = Path(__file__).parents[2]
LAYERS = ("ir", "passes", "quant_passes", "codegen", "runtime")
OPTIONS = options_of(cli)
PYTHON_ONLY = {
    "pass a tuple: passes=(3,)",  # of passes that a caller wrote
    "pass a tuple: rules=(rule,), of what ascendfx.rules.register returned",
    "capture the layer with `ascendfx.compile(..., draft=...)`",  # a hand-made program
}
PUBLIC = (ascendfx.compile, ascendfx.load, Engine.generate, Engine.save, Limits, Request, Sampling)
ARGUMENTS = {
    name for of in (*PUBLIC, Typical, Relaxed) for name in inspect.signature(of).parameters
} - {"self"}


def texts(file: Path) -> Iterator[str]:
    """Yield every text with a blank that is no docstring; values are shown as 3."""
    tree = ast.parse(file.read_text(encoding="utf-8"))
    whole = {id(each.value) for each in ast.walk(tree) if isinstance(each, ast.Expr)}
    for node in ast.walk(tree):
        if isinstance(node, ast.JoinedStr):
            whole |= {id(part) for part in node.values}
            yield "".join(
                str(part.value) if isinstance(part, ast.Constant) else "3" for part in node.values
            )
        elif isinstance(node, ast.Constant) and id(node) not in whole:
            yield from [node.value] if isinstance(node.value, str) and " " in node.value else []


def named(text: str) -> list[str]:
    """Return the arguments that a message names: several words, or one before a value."""
    found = re.finditer(r"(?<![\w./-])(?P<name>[a-z_]+)(?P<value>=?)(?![\w/]|\.\w)", text)
    return [
        each["name"]
        for each in found
        if each["name"] in ARGUMENTS and (each["value"] or "_" in each["name"])
    ]


@pytest.mark.parametrize("layer", LAYERS)
def test_messages_name_options_on_the_command_line(layer: str) -> None:
    left = {
        f"{file.relative_to(ROOT)}: {text}: {found}"
        for file in (ROOT / layer).rglob("*.py")
        for text in texts(file)
        if text not in PYTHON_ONLY and (found := named(in_options(text, OPTIONS)))
    }
    assert not left, "\n".join(sorted(left))


def test_an_argument_without_an_option_would_be_found() -> None:
    assert named(in_options("pass max_batch=3, or stop_at_eos=False", OPTIONS)) == ["stop_at_eos"]
    assert named("the draft, or `draft`; passes=(A(),)") == ["passes"]
