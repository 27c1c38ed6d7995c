"""Arguments of a wrong type: one error that names the argument, before any work.

The arguments are read off the signatures, so that a new one is tested without being listed.
"""

import inspect
import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import ascendfx
from ascendfx import GraphError
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.start_engine import start_engine
from tests.bad_input.ended import Command

WRONG = {"object": object(), "list": [[1]], "fraction": 2.5, "bytes": b"x"}
"""Values that fit no argument of any public function, but `_RIGHT`."""
_RIGHT = {("prompts", "list"), ("verify_tokens", "list")}


def arguments(function: Callable[..., Any]) -> list[Any]:
    return [
        pytest.param(name, value, id=f"{name}-{kind}")
        for name in inspect.signature(function).parameters
        for kind, value in WRONG.items()
        if name != "self" and (name, kind) not in _RIGHT
    ]


def check(error: GraphError) -> None:
    assert error.code in {"bad-argument", "bad-limit", "bad-prompt", "no-model"}
    assert error.hint


@pytest.mark.parametrize(("name", "value"), arguments(ascendfx.compile))
def test_arguments_of_compile(name: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(**{"model": tmp_path / "none", name: value})  # type: ignore[arg-type]
    check(caught.value)
    assert name in caught.value.reason


@pytest.mark.parametrize(("name", "value"), arguments(ascendfx.load))
def test_arguments_of_load(name: str, value: object, tmp_path: Path) -> None:
    with pytest.raises(GraphError) as caught:
        ascendfx.load(**{"directory": tmp_path / "none", name: value})  # type: ignore[arg-type]
    check(caught.value)
    assert name in caught.value.reason


@pytest.fixture(scope="module")
def engine(compiled: CompiledModel) -> Engine:
    return start_engine(compiled, "reference")


@pytest.mark.parametrize(("name", "value"), arguments(Engine.generate))
def test_arguments_of_generate(name: str, value: object, engine: Engine) -> None:
    with pytest.raises(GraphError) as caught:
        engine.generate(**{"prompts": [[1]], name: value})  # type: ignore[arg-type]
    check(caught.value)
    assert name in caught.value.reason


@pytest.mark.parametrize("prompt", [b"text", bytearray(b"text"), {1: 2}, {1, 2}, object(), [b"x"]])
def test_a_prompt_is_text_or_a_list_of_ids(prompt: object, engine: Engine) -> None:
    with pytest.raises(GraphError, match=r"error\[bad-prompt\]: prompt 1 ") as caught:
        engine.generate([[1], prompt])  # type: ignore[list-item]
    assert caught.value.hint


@pytest.mark.parametrize("value", WRONG.values(), ids=WRONG)
def test_arguments_of_save(value: object, engine: Engine) -> None:
    with pytest.raises(GraphError, match=r"error\[bad-argument\]: directory must be a path"):
        engine.save(value)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("limits", "numbers"),
    [
        ({"max_context": 10**12, "cache_blocks": 1}, ("999,999,999,999", "2,147,483,647")),
        ({"max_context": 10**9, "max_batch": 16}, ("15,999,999,999", "2,147,483,647")),
        ({"cache_blocks": 2**24 + 1}, ("16,777,217 blocks", "2,147,483,775", "2,147,483,647")),
        ({"max_batch": 2**31 + 1, "cache_blocks": 1}, ("2,147,483,648", "2,147,483,647")),
        ({"prefill_chunk": 2**31 + 1}, ("2,147,483,648", "2,147,483,647")),
    ],
    ids=str,
)
def test_indices_have_32_bits(limits: dict[str, int], numbers: tuple[str, ...]) -> None:
    with pytest.raises(GraphError) as caught:
        Limits(**limits)
    assert caught.value.code == "limit-too-large"
    assert all(number in caught.value.reason for number in numbers)


def test_the_largest_index_is_served() -> None:
    assert Limits(cache_blocks=2**24, max_context=2**31).blocks == 2**24


def test_caches_must_fit_into_the_chip(original: Path) -> None:
    # Two layers of 8 + 8 numbers in f32: 16,384 bytes per block of 128 tokens.
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(original, cache_blocks=2**22 + 1, executor="reference")
    assert caught.value.code == "limit-too-large"
    assert (
        "68,719,493,120 bytes and what is kept of 16 requests 2,560, ascend910b2 has "
        "68,719,476,736" in caught.value.reason
    )


def test_intermediate_values_must_fit_into_the_chip(original: Path) -> None:
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(original, cache_blocks=1, max_context=10**9, executor="reference")
    assert caught.value.code == "limit-too-large"
    assert "`prefill` with 128 rows needs " in caught.value.reason


@pytest.mark.parametrize("count", ["0", "-1", "x"])
def test_run_checks_its_numbers_before_any_work(count: str, command: Command) -> None:
    # The package does not exist: if it were looked at first, the error would be another.
    ended = command("run", "none", "-p", "a", "-n", count)
    assert ended.code == 2
    assert "'-n' / '--max-new-tokens'" in ended.error


def test_a_package_has_no_reference_executor(saved: Path, command: Command) -> None:
    ended = command("run", saved, "-p", "a", "--executor", "reference")
    assert ended.code == 1
    assert ended.error.startswith("error[needs-model]: the reference executor interprets")
    assert "ascendfx run MODEL --executor reference" in ended.error
    with pytest.raises(GraphError, match="needs-model"):
        ascendfx.load(saved, executor="reference")


def test_run_interprets_a_model_directory(command: Command) -> None:
    model = ascendfx.bundled_model()
    golden = json.loads((model / "golden_generations.json").read_text())["items"][0]
    ended = command(
        "run", model, "-p", golden["prompt"], "-n", 2, "--executor", "reference", "--json"
    )
    assert ended.code == 0, ended.error
    assert json.loads(ended.out)["token_ids"] == golden["output_ids"][:2]


def test_the_module_is_the_command() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "ascendfx", "--version"], capture_output=True, text=True, check=True
    )
    assert done.stdout == f"ascendfx, version {ascendfx.__version__}\n"
