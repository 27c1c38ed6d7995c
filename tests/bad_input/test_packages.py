"""Damaged packages: one error that names the file and says what to do, before anything is built."""

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

from tests.bad_input.ended import Command

Damage = Callable[[Path], object]


def a_kernel(package: Path) -> Path:
    return min((package / "kernels").glob("decode_*.cpp"))


def set_manifest(package: Path, **fields: object) -> None:
    file = package / "package.json"
    file.write_text(json.dumps({**json.loads(file.read_text()), **fields}))


def drop_from_manifest(package: Path, field: str) -> None:
    file = package / "package.json"
    fields = json.loads(file.read_text())
    del fields[field]
    file.write_text(json.dumps(fields))


def append(file: Path, text: str) -> None:
    file.write_text(file.read_text() + text)


def cut_weights(package: Path) -> None:
    file = package / "weights.safetensors"
    file.write_bytes(file.read_bytes()[:-1])


def without_a_weight(package: Path) -> None:
    tensors = load_file(package / "weights.safetensors")
    tensors.pop(min(tensors))
    save_file(tensors, package / "weights.safetensors")


def weight_of_another_shape(package: Path) -> None:
    tensors = load_file(package / "weights.safetensors")
    tensors[min(tensors)] = np.zeros(3, np.float32)
    save_file(tensors, package / "weights.safetensors")


DAMAGED = "error[package-damaged]: "
AGAIN = "hint: compile the "

CASES: dict[str, tuple[Damage, str, str]] = {
    "no manifest": (
        lambda package: (package / "package.json").unlink(),
        "error[not-a-package]: {package} has no package.json",
        "a package is what `ascendfx compile` or `engine.save` wrote",
    ),
    "manifest is no JSON": (
        lambda package: (package / "package.json").write_text("{"),
        DAMAGED + "{package}/package.json cannot be read",
        AGAIN,
    ),
    "manifest of another version": (
        lambda package: set_manifest(package, format=7),
        "error[package-version]: {package}/package.json has format 7, this version reads ",
        AGAIN,
    ),
    "manifest without a field": (
        lambda package: drop_from_manifest(package, "end_tokens"),
        DAMAGED + "{package}/package.json has no `end_tokens`",
        AGAIN,
    ),
    "unknown target": (
        lambda package: set_manifest(package, target="ascend310"),
        "error[unknown-target]: ",
        "ascend910b2",
    ),
    "no list of files": (
        lambda package: (package / "MANIFEST").unlink(),
        "error[not-a-package]: {package} has no MANIFEST",
        "",
    ),
    "list of files of another form": (
        lambda package: append(package / "MANIFEST", "nonsense\n"),
        DAMAGED + "{package}: `MANIFEST` ",
        AGAIN,
    ),
    "a kernel missing": (
        lambda package: a_kernel(package).unlink(),
        DAMAGED + "{package}: `kernels/{kernel}` is missing",
        AGAIN,
    ),
    "a kernel changed": (
        lambda package: append(a_kernel(package), "// changed\n"),
        DAMAGED + "{package}: `kernels/{kernel}` is not what was written",
        AGAIN,
    ),
    "a plan changed": (
        lambda package: append(package / "plan-decode.json", " "),
        DAMAGED + "{package}: `plan-decode.json` is not what was written",
        AGAIN,
    ),
    "no weights": (
        lambda package: (package / "weights.safetensors").unlink(),
        DAMAGED + "{package}: `weights.safetensors` is missing",
        AGAIN,
    ),
    "weights cut off": (
        cut_weights,
        "error[damaged-file]: {package}/weights.safetensors is not a complete safetensors file: ",
        "hint: ",
    ),
    "a weight missing": (
        without_a_weight,
        "error[missing-tensor]: {package}/weights.safetensors has no tensor `",
        AGAIN,
    ),
    "a weight of another shape": (
        weight_of_another_shape,
        DAMAGED + "tensor `",
        AGAIN,
    ),
    "tokenizer missing": (
        lambda package: (package / "tokenizer.json").unlink(),
        "error[bad-tokenizer]: {package}/tokenizer.json is not a tokenizer file",
        "",
    ),
    "tokenizer of another form": (
        lambda package: (package / "tokenizer.json").write_text("[]"),
        "error[bad-tokenizer]: {package}/tokenizer.json is not a tokenizer file",
        "",
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_damaged_package_is_one_error(
    name: str, package: Path, command: Command, tmp_path: Path
) -> None:
    damage, message, remedy = CASES[name]
    kernel = a_kernel(package).name
    damage(package)
    ended = command("run", package, "-p", "a", "--kernel-cache", tmp_path / "cache")
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith(message.format(package=package, kernel=kernel))
    assert remedy in ended.error
    assert not (tmp_path / "cache").exists(), "kernels were built for a damaged package"


def test_a_folder_that_is_no_package_is_left_alone(
    checkpoint: Path, command: Command, tmp_path: Path
) -> None:
    before = sorted(checkpoint.iterdir())
    ended = command("compile", checkpoint, "-o", checkpoint)
    assert ended.code == 1
    assert ended.error.startswith(f"error[not-a-package]: {checkpoint} exists and is not a package")
    assert sorted(checkpoint.iterdir()) == before
    assert [each.name for each in tmp_path.iterdir()] == ["model"]


def test_running_a_package_without_a_compiler_names_the_remedy(
    package: Path, command: Command, monkeypatch: pytest.MonkeyPatch
) -> None:
    # On the builder itself: tests/emulator/test_kernel_cache.py.
    monkeypatch.setenv("PATH", "")
    ended = command("run", package, "-p", "a")
    assert ended.code == 1
    assert ended.error.startswith("error[no-compiler]: ")
    assert "apt-get install g++" in ended.error


def test_an_older_package_is_replaced_completely(
    package: Path, original: Path, command: Command, tmp_path: Path
) -> None:
    (package / "stray").write_text("from an older version")
    options = ("--max-batch", 1, "--max-context", 128, "--prefill-chunk", 8)
    assert command("compile", original, "-o", package, *options).code == 0
    assert not (package / "stray").exists()
    assert [each.name for each in tmp_path.iterdir()] == ["pkg"]
    shutil.rmtree(package)
