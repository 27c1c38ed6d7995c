"""A package is the model that its engine is: what was changed in between is not saved."""

import os
import shutil
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors.numpy import load_file, save_file

from ascendfx import GraphError
from ascendfx.ir.capture.module_source import source_of_module
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.package.save_package import save_package
from ascendfx.runtime.start_engine import start_engine
from tests.bad_input.ended import LIMITS, WEIGHTS

KEY = "model.layers.0.mlp.{}_proj.weight"


def _exchanged(folder: Path) -> dict[str, np.ndarray]:
    """Return the tensors, two of one shape exchanged: header and size stay."""
    tensors = {name: each.copy() for name, each in load_file(folder / WEIGHTS).items()}
    gate, up = (KEY.format(each) for each in ("gate", "up"))
    tensors[gate], tensors[up] = tensors[up], tensors[gate]
    return tensors


def _replaced(folder: Path) -> None:
    """Put another file there, as old and as long."""
    before = (folder / WEIGHTS).stat()
    save_file(_exchanged(folder), folder / "new")
    os.utime(folder / "new", ns=(before.st_atime_ns, before.st_mtime_ns))
    shutil.move(folder / "new", folder / WEIGHTS)
    assert (folder / WEIGHTS).stat().st_size == before.st_size


def _written(folder: Path) -> None:
    with (folder / WEIGHTS).open("r+b") as file:
        file.seek(-4, os.SEEK_END)
        file.write(b"\0\0\0\0")


def _cut(folder: Path) -> None:
    os.truncate(folder / WEIGHTS, 5000)


def _gone(folder: Path) -> None:
    (folder / WEIGHTS).unlink()


def _other_tokenizer(folder: Path) -> None:
    text = (folder / "tokenizer.json").read_text(encoding="utf-8")
    (folder / "tokenizer.json").write_text(f"{text} ", encoding="utf-8")


def _no_tokenizer(folder: Path) -> None:
    (folder / "tokenizer.json").unlink()


@pytest.mark.parametrize(
    ("change", "name"),
    [
        (_replaced, WEIGHTS),
        (_written, WEIGHTS),
        (_cut, WEIGHTS),
        (_gone, WEIGHTS),
        (_other_tokenizer, "tokenizer.json"),
        (_no_tokenizer, "tokenizer.json"),
    ],
)
def test_files_that_changed_since_the_compilation_are_not_saved(
    change: Callable[[Path], None], name: str, checkpoint: Path, traces: Path, tmp_path: Path
) -> None:
    compiled = compile_model(checkpoint, limits=LIMITS, trace_folder=traces)
    change(checkpoint)
    with pytest.raises(GraphError) as caught:
        save_package(compiled, tmp_path / "pkg")
    assert caught.value.code == "changed-file"
    assert caught.value.reason.startswith(f"{checkpoint / name} ")
    assert not (tmp_path / "pkg").exists()
    if name == WEIGHTS:
        with pytest.raises(GraphError, match=r"error\[changed-file\]"):
            start_engine(compiled, "reference")


def test_a_copy_that_was_not_touched_is_saved(
    checkpoint: Path, traces: Path, tmp_path: Path
) -> None:
    compiled = compile_model(checkpoint, limits=LIMITS, trace_folder=traces)
    load_file(checkpoint / WEIGHTS)
    save_package(compiled, tmp_path / "pkg")
    assert (tmp_path / "pkg" / "package.json").is_file()


def test_a_module_that_changed_since_it_was_taken_is_refused() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(3, 3))
    module.register_buffer("phases", torch.ones(2, dtype=torch.complex64))
    for key, change in {
        "0.weight": module.get_parameter("0.weight").neg_,
        "0.bias": lambda: module.get_parameter("0.bias").add_(1),
        "phases.real": lambda: module.get_buffer("phases").mul_(2),
    }.items():
        source = source_of_module(module, {})
        source.load(key)
        with torch.no_grad():
            change()
        with pytest.raises(GraphError, match=rf"error\[changed-weights\]: `{key}` was changed"):
            source.load(key)


def test_the_same_numbers_written_again_are_no_change() -> None:
    module = torch.nn.Linear(3, 3)
    source = source_of_module(module, {})
    before = source.load("weight").copy()
    module.load_state_dict(module.state_dict())
    module.double().float()
    np.testing.assert_array_equal(source.load("weight"), before)


def test_weights_that_were_put_in_place_of_others_change_nothing() -> None:
    module = torch.nn.Linear(2, 2)
    source = source_of_module(module, {})
    before = source.load("weight").copy()
    module.weight = torch.nn.Parameter(torch.zeros(2, 2))
    np.testing.assert_array_equal(source.load("weight"), before)


def test_tensors_without_a_count_of_changes_are_read() -> None:
    with torch.inference_mode():
        module = torch.nn.Linear(2, 2)
    assert source_of_module(module, {}).load("weight").shape == (2, 2)
