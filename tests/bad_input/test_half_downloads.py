"""Folders as a cut-off download leaves them, and names that are no text: each is one error."""

import json
import os
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from ascendfx import GraphError
from ascendfx.runtime.checkpoint.layer_numbers import check_layers
from ascendfx.runtime.checkpoint.present_file import is_present
from ascendfx.runtime.compile_model import compile_model
from tests.bad_input.ended import LIMITS, WEIGHTS, Command


def _dangling(file: Path) -> None:
    file.symlink_to("../blobs/0123")


def _loop(file: Path) -> None:
    file.symlink_to(file.name)


def _folder(file: Path) -> None:
    file.mkdir()


def _pipe(file: Path) -> None:
    os.mkfifo(file)


@pytest.mark.parametrize(
    ("put", "what"),
    [
        (_dangling, "a link to ../blobs/0123, where no file is"),
        (_loop, "a link to tokenizer.json, where no file is"),
        (_folder, "a folder, no file"),
        (_pipe, "no regular file"),
    ],
)
def test_a_broken_file_is_not_an_absent_one(
    put: Callable[[Path], None], what: str, tmp_path: Path
) -> None:
    file = tmp_path / "tokenizer.json"
    assert not is_present(file)
    put(file)
    with pytest.raises(GraphError, match=rf"error\[damaged-file\]: {file} is {what}"):
        is_present(file)


@pytest.mark.parametrize(
    "name",
    [
        "tokenizer.json",
        "generation_config.json",
        "config.json",
        WEIGHTS,
        "model.safetensors.index.json",
    ],
)
def test_every_file_of_a_model_is_looked_at(name: str, checkpoint: Path) -> None:
    (checkpoint / name).unlink(missing_ok=True)
    if name.endswith("index.json"):
        (checkpoint / WEIGHTS).rename(checkpoint / "model-1.safetensors")
    _dangling(checkpoint / name)
    with pytest.raises(GraphError) as caught:
        compile_model(checkpoint, limits=LIMITS)
    assert caught.value.code == "damaged-file"
    assert caught.value.reason.startswith(f"{checkpoint / name} is a link to ")


def test_a_folder_whose_name_is_no_text_is_said(
    checkpoint: Path, tmp_path: Path, command: Command
) -> None:
    name = tmp_path / os.fsdecode(b"m\xff")
    shutil.move(checkpoint, name)
    with pytest.raises(GraphError, match=r"the name of .*m\\xff is no text in UTF-8"):
        compile_model(name, limits=LIMITS, dump_dir=tmp_path / "dump")
    ended = command("compile", name, "-o", tmp_path / "pkg")
    assert ended.error.startswith("error[no-model]: the name of ")


def test_more_end_tokens_than_a_step_compares_with_are_said_at_once(checkpoint: Path) -> None:
    file = checkpoint / "generation_config.json"
    file.write_text(json.dumps({"eos_token_id": list(range(9))}), encoding="utf-8")
    with pytest.raises(GraphError, match=r"error\[bad-config\]: the model has 9 end tokens"):
        compile_model(checkpoint, limits=LIMITS)


def test_millions_of_layers_are_not_built(checkpoint: Path) -> None:
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    config |= {"num_hidden_layers": 10_000_000}
    (checkpoint / "config.json").write_text(json.dumps(config), encoding="utf-8")
    with pytest.raises(GraphError, match=r"no tensor of layer 9999999, .*their last one is 1"):
        compile_model(checkpoint, limits=LIMITS)


def test_layers_are_counted_where_they_have_numbers() -> None:
    check_layers(["h.0.w", "head.weight"], 12, "config")
    check_layers(["model.layers.0.w", "model.layers.1.w", "model.layers.2.eh_proj"], 2, "config")
    check_layers(["model.layers.0.w"], 0, "config")
    with pytest.raises(GraphError, match="missing-tensor"):
        check_layers(["model.layers.0.w"], 2, "config")
