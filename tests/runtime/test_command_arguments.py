"""What Python can be asked for, the command line can: arguments without an option are listed."""

import inspect
from collections.abc import Callable
from typing import Any

import click
import pytest

import ascendfx
from ascendfx import Engine, Relaxed, Sampling, Typical
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.golden.check_golden import check_golden
from ascendfx.runtime.golden.make_golden import Subject
from ascendfx.runtime.golden.record_golden import record_golden

OBJECTS = {"draft", "rules", "passes", "verify_tokens", "progress"}
"""Modules, functions and lists of lists: what a command line cannot spell."""
RECORDED = set(inspect.signature(ascendfx.compile).parameters) - {"model", "kernel_cache"}
"""`golden check` compiles as `golden.json` says."""
FIXED = RECORDED - {"target", "executor", "draft_tokens", "draft_tree", "dump_dir"}
"""`demo` shows one model, whose golden tokens are of one format."""

Functions = tuple[tuple[Callable[..., Any], str], ...]
COMMANDS: dict[str, tuple[Functions, set[str]]] = {
    # `executor`: a package is run by `run`.
    "compile": (((ascendfx.compile, ""), (Engine.save, "")), OBJECTS | {"executor"}),
    "run": (
        (
            (ascendfx.load, ""),
            (Engine.generate, ""),
            (Sampling, ""),
            (Typical, "typical_"),
            (Relaxed, "relaxed_"),
            (Engine.save_metrics, ""),
        ),
        {"progress"},
    ),
    "demo": (((ascendfx.compile, ""),), FIXED | {"model"}),
    # Golden outputs are verified, and its dump is a part of it: `verify...`, `dump_dir`.
    "golden record": (
        ((ascendfx.compile, ""), (Subject, ""), (record_golden, "")),
        # `quant`: what is recorded is held to declared fidelity, and quantization is lossy.
        OBJECTS | {"verify", "verify_length", "dump_dir", "executor", "quant"},
    ),
    "golden check": (((ascendfx.compile, ""), (check_golden, "")), RECORDED | {"tell"}),
}
SPELLED = {
    "compile": {"directory": "output"},
    "run": {
        "directory": "package",
        "stop_at_eos": "ignore_eos",
        "path": "metrics",
        "sampling": "temperature",
    },
    "golden record": {
        "subject": "model",
        "directory": "output",
        "tokens": "prompts",
        "limits": "max_batch",
    },
    "golden check": {"subject": "model"},
}
"""Arguments whose option has another name for it."""


def command_of(name: str) -> click.Command:
    found: click.Command = cli
    for part in name.split():
        assert isinstance(found, click.Group)
        found = found.commands[part]
    return found


@pytest.mark.parametrize("name", COMMANDS)
def test_every_argument_has_an_option_or_is_listed_as_having_none(name: str) -> None:
    functions, allowed = COMMANDS[name]
    options = {parameter.name for parameter in command_of(name).params}
    arguments = {
        f"{prefix}{argument}"
        for function, prefix in functions
        for argument in inspect.signature(function).parameters
        if argument != "self"
    }
    spelled = SPELLED.get(name, {})
    assert set(spelled) <= arguments
    assert set(spelled.values()) <= options
    missing = {each for each in arguments if spelled.get(each, each) not in options}
    assert missing == allowed & arguments, "give the command an option, or say why it has none"
    assert not missing ^ allowed, "an argument that is gone, or has an option by now"
