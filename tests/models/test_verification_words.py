"""Three things are called verification: each argument says which, and names the others."""

import inspect
import re
from collections.abc import Callable
from typing import Any

import pytest
from click.testing import CliRunner

import ascendfx
from ascendfx import Engine, Request, Sampling
from ascendfx.runtime.cli.main import cli

KINDS = {
    "passes": (ascendfx.compile, "verify", "compile(verify=...)"),
    "files": (ascendfx.load, "verify", "load(verify=...)"),
    "drafts": (Sampling, "verification", "Sampling(verification=...)"),
}
PUBLIC = (ascendfx.compile, ascendfx.load, Sampling, Request, Engine.generate, Engine.stream)


def described(function: Callable[..., Any], argument: str) -> str:
    """Return what a docstring says of an argument, in one line."""
    found = re.search(
        rf"^    {argument}: (.*(?:\n {{8}}.*)*)", inspect.getdoc(function) or "", re.M
    )
    assert found, argument
    return " ".join(found[1].split())


@pytest.mark.parametrize("kind", KINDS)
def test_an_argument_says_which_verification_it_is(kind: str) -> None:
    function, argument, _ = KINDS[kind]
    text = described(function, argument)
    assert text.startswith(f"Verification of {kind} (")
    for other, (_, _, call) in KINDS.items():
        assert (f"of {other}: ``{call}``" in text) == (other != kind)


def test_what_belongs_to_the_verification_of_passes_says_so() -> None:
    for argument in ("verify_tokens", "verify_length"):
        assert "that ``verify`` runs on" in described(ascendfx.compile, argument)


def test_no_other_argument_has_such_a_name() -> None:
    named = {
        argument
        for function in PUBLIC
        for argument in inspect.signature(function).parameters
        if argument.startswith("verif")
    }
    assert named == {"verify", "verify_tokens", "verify_length", "verification"}


@pytest.mark.parametrize(
    ("command", "kinds"), [("compile", ["passes"]), ("run", ["files", "drafts"])]
)
def test_options_say_it_too(command: str, kinds: list[str]) -> None:
    shown = " ".join(CliRunner().invoke(cli, [command, "--help"]).output.split())
    for kind in kinds:
        assert f"Verification of {kind}" in shown
