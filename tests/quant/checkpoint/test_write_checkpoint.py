"""A checkpoint is written once, tensor by tensor, whatever happens in between."""

import errno
import json
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors import safe_open

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.hf_form import HfForm
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.runtime.checkpoint.dry_run import dry_run
from ascendfx.runtime.checkpoint.equal_tensors import equal_tensors
from ascendfx.runtime.checkpoint.journal import NAME
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from ascendfx.runtime.checkpoint.read_directory import stored_tensors
from ascendfx.runtime.checkpoint.safetensors_file import read_header
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint
from tests.quant.checkpoint import killed_writer, plans
from tests.quant.checkpoint.plans import deepseek, planned, values_of

OPTIONS = WriteOptions({"torch_dtype": "bfloat16"}, shard_bytes=9000)
ROOT = Path(__file__).parents[3]


def contents(folder: Path) -> dict[str, bytes]:
    return {file.name: file.read_bytes() for file in folder.iterdir()}


def counted(plan: list[PlannedTensor], made: list[str]) -> list[PlannedTensor]:
    def of(tensor: PlannedTensor) -> PlannedTensor:
        def make() -> SavedWeight:
            made.append(tensor.name)
            return tensor.make()

        return replace(tensor, make=make)

    return [of(tensor) for tensor in plan]


def failing(plan: list[PlannedTensor], at: int, error: Exception) -> list[PlannedTensor]:
    def fail() -> SavedWeight:
        raise error

    return [*plan[:at], replace(plan[at], make=fail), *plan[at + 1 :]]


def half_written(folder: Path) -> Path:
    """Write the first twenty weights; return the folder of what is unfinished."""
    wrong = failing(deepseek(), 20, GraphError("bad-weight", "no", hint="none"))
    with pytest.raises(GraphError, match="bad-weight"):
        write_checkpoint(folder / "out", wrong, AscendForm(), OPTIONS)
    return folder / ".out.partial"


def resumed(folder: Path) -> list[str]:
    """Go on; return the weights that were made. The result is that of one run."""
    made: list[str] = []
    write_checkpoint(folder / "out", counted(deepseek(), made), AscendForm(), OPTIONS)
    write_checkpoint(folder / "once", deepseek(), AscendForm(), OPTIONS)
    assert contents(folder / "out") == contents(folder / "once")
    return made


def test_killed_at_twenty_moments_and_before_each_step(tmp_path: Path) -> None:
    result = subprocess.run(
        [sys.executable, killed_writer.__file__, tmp_path],
        env={**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert not result.returncode, result.stderr
    assert "20 kills" in result.stdout


def test_an_error_keeps_what_is_written(tmp_path: Path) -> None:
    partial = half_written(tmp_path)
    assert partial.is_dir()
    assert not (tmp_path / "out").exists()
    assert resumed(tmp_path) == [tensor.name for tensor in deepseek()[20:]]
    assert not partial.exists()


def test_the_error_says_that_nothing_is_lost(tmp_path: Path) -> None:
    wrong = failing(deepseek(), 20, GraphError("bad-weight", "no", hint="none"))
    with pytest.raises(GraphError) as caught:
        write_checkpoint(tmp_path / "out", wrong, AscendForm(), OPTIONS)
    assert caught.value.notes == (
        f"20 of {len(wrong)} weights are kept in {tmp_path}/.out.partial: the same command goes on "
        "from there",
    )


def test_a_full_disk_keeps_what_is_written(tmp_path: Path) -> None:
    wrong = failing(deepseek(), 7, OSError(errno.ENOSPC, "No space left on device"))
    with pytest.raises(GraphError, match=r"disk-full.*out cannot be written") as caught:
        write_checkpoint(tmp_path / "out", wrong, AscendForm(), OPTIONS)
    assert "7 of" in caught.value.notes[0]
    assert len(resumed(tmp_path)) == len(deepseek()) - 7


def test_a_disk_without_room_is_told_before_the_work(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=1000)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    made: list[str] = []
    with pytest.raises(GraphError, match=r"disk-full.*bytes more, 1,000 are free"):
        write_checkpoint(tmp_path / "out", counted(deepseek(), made), AscendForm(), OPTIONS)
    assert not made


def _cut_line(partial: Path) -> None:
    file = partial / NAME
    file.write_bytes(file.read_bytes()[:-5])


def _damaged_line(partial: Path) -> None:
    lines = (partial / NAME).read_bytes().splitlines(keepends=True)
    lines[-1] = b"\0" * 20 + b"\n"
    (partial / NAME).write_bytes(b"".join(lines))


def _no_newline(partial: Path) -> None:
    file = partial / NAME
    file.write_bytes(file.read_bytes()[:-1])


def _lost_bytes(partial: Path) -> None:
    """The journal reached the disk, the last tensor did not, as when the power fails."""
    name = json.loads((partial / NAME).read_text().splitlines()[-1])["tensor"]
    for file in partial.glob("*.safetensors"):
        for key, tensor in read_header(file).items():
            if key == name:
                with file.open("r+b") as opened:
                    opened.seek(tensor.begin)
                    opened.write(bytes(tensor.end - tensor.begin))


@pytest.mark.parametrize("damage", [_cut_line, _damaged_line, _no_newline, _lost_bytes])
def test_what_is_not_surely_written_is_made_again(
    damage: Callable[[Path], None], tmp_path: Path
) -> None:
    damage(half_written(tmp_path))
    assert resumed(tmp_path) == [tensor.name for tensor in deepseek()[19:]]


def test_files_that_are_gone_are_made_again(tmp_path: Path) -> None:
    partial = half_written(tmp_path)
    for file in partial.glob("*.safetensors"):
        file.unlink()
    assert len(resumed(tmp_path)) == len(deepseek())


@pytest.mark.parametrize("change", ["origin", "config", "shards", "plan"])
def test_the_beginning_of_another_result_is_not_gone_on_with(change: str, tmp_path: Path) -> None:
    half_written(tmp_path)
    options = {
        "origin": replace(OPTIONS, origin="seed 2"),
        "config": replace(OPTIONS, config={"torch_dtype": "float16"}),
        "shards": replace(OPTIONS, shard_bytes=8000),
    }
    plan = deepseek()[:-1] if change == "plan" else deepseek()
    with pytest.raises(GraphError, match=r"other-job.*\.out\.partial"):
        write_checkpoint(tmp_path / "out", plan, AscendForm(), options.get(change, OPTIONS))


def test_two_writers_at_once_are_refused(tmp_path: Path) -> None:
    def second() -> SavedWeight:
        write_checkpoint(tmp_path / "out", plan, HfForm(), OPTIONS)
        raise AssertionError

    plan = [PlannedTensor("a", (3,), DType.F32, None, second)]
    with pytest.raises(GraphError, match="writer-busy"):
        write_checkpoint(tmp_path / "out", plan, HfForm(), OPTIONS)


def test_what_exists_is_not_replaced(tmp_path: Path) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "a").touch()
    with pytest.raises(GraphError, match=r"not-writable.*exists already"):
        write_checkpoint(tmp_path / "out", deepseek(), AscendForm(), OPTIONS)
    (tmp_path / "out" / "a").unlink()
    write_checkpoint(tmp_path / "out", deepseek(), AscendForm(), OPTIONS)


def test_what_belongs_to_the_model_is_copied(tmp_path: Path) -> None:
    model = tmp_path / "model"
    model.mkdir()
    for name in ("tokenizer.json", "config.json", "a.safetensors", "b.bin", "modeling.py"):
        (model / name).write_text("{}")
    (model / "model.safetensors.index.json").write_text("{}")
    (model / "folder").mkdir()
    plan = [planned("a.weight", (3,))]
    write_checkpoint(tmp_path / "out", plan, HfForm(), replace(OPTIONS, beside=model))
    assert {file.name for file in (tmp_path / "out").iterdir()} == {
        "config.json",
        "model-00001-of-00001.safetensors",
        "model.safetensors.index.json",
        "modeling.py",
        "tokenizer.json",
    }
    assert "torch_dtype" in json.loads((tmp_path / "out" / "config.json").read_text())


def test_the_library_reads_every_file_and_all_data_are_aligned(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "out", deepseek(), AscendForm(), OPTIONS)
    index = json.loads(
        (tmp_path / "out" / "quant_model_weights.safetensors.index.json").read_text()
    )
    found = set[str]()
    for file in sorted((tmp_path / "out").glob("*.safetensors")):
        with safe_open(file, framework="numpy") as opened:
            found |= set(opened.keys())
            assert all(index["weight_map"][name] == file.name for name in opened.keys())  # noqa: SIM118
        tensors = read_header(file).values()
        assert sum(tensor.end - tensor.begin for tensor in tensors) <= 9000
        for tensor in tensors:
            assert tensor.begin % tensor.format.itemsize == 0
    assert found == index["weight_map"].keys()


def test_progress_counts_bytes(tmp_path: Path) -> None:
    seen: list[tuple[str, int, int]] = []
    options = replace(OPTIONS, progress=lambda *each: seen.append(each))
    result = write_checkpoint(tmp_path / "out", deepseek(), AscendForm(), options)
    assert seen[-1] == ("write weights", result.bytes, result.bytes)
    assert [done for _, done, _ in seen] == sorted({done for _, done, _ in seen})
    assert len(seen) == len(deepseek())


def with_copies() -> list[PlannedTensor]:
    """The draft layer repeats the embedding; another tensor has its shape and its beginning."""
    large = (200, 256)

    def almost() -> SavedWeight:
        values = values_of("embed_tokens.weight", large).copy()
        values[-1, -1] += 1
        return SavedWeight(values)

    first = planned("embed_tokens.weight", large)
    copy = replace(first, name="layers.61.embed_tokens.weight")
    other = replace(first, name="lm_head.weight", make=almost)
    return [first, other, copy, planned("layers.61.norm.weight", (3,))]


def test_equal_tensors_are_found_and_written_once(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "twice", with_copies(), HfForm(), OPTIONS)
    equal = equal_tensors(stored_tensors(tmp_path / "twice"))
    assert equal == {"layers.61.embed_tokens.weight": "embed_tokens.weight"}
    options = replace(OPTIONS, shared=equal)
    for form in (HfForm(), AscendForm()):
        made: list[str] = []
        place = tmp_path / form.name
        result = write_checkpoint(place, counted(with_copies(), made), form, options)
        assert len(made) == 3
        assert result.bytes < 0.7 * sum(
            file.stat().st_size for file in (tmp_path / "twice").glob("*.safetensors")
        )
        found = open_checkpoint(place)
        for tensor in with_copies():
            expected = values_of(tensor.name, tensor.shape)
            if "norm" not in tensor.name:
                expected = tensor.make().weight
            np.testing.assert_array_equal(found.load(tensor.name), expected)


def test_small_tensors_are_not_compared(tmp_path: Path) -> None:
    plan = [planned("a", (3,)), replace(planned("a", (3,)), name="b")]
    write_checkpoint(tmp_path / "out", plan, HfForm(), OPTIONS)
    assert not equal_tensors(stored_tensors(tmp_path / "out"))
    assert equal_tensors(stored_tensors(tmp_path / "out"), smallest=1) == {"b": "a"}


@pytest.mark.parametrize(
    ("shared", "why"),
    [
        ({"lm_head.weight": "none"}, "one of them is not written"),
        ({"none": "lm_head.weight"}, "one of them is not written"),
        ({"lm_head.weight": "layers.61.norm.weight"}, "stored otherwise"),
        (
            {"lm_head.weight": "embed_tokens.weight", "embed_tokens.weight": "lm_head.weight"},
            "one of them is not written",
        ),
    ],
)
def test_equal_tensors_that_cannot_be_are_refused(
    shared: dict[str, str], why: str, tmp_path: Path
) -> None:
    options = replace(OPTIONS, shared=shared)
    with pytest.raises(GraphError, match=f"bad-plan.*{why}"):
        write_checkpoint(tmp_path / "out", with_copies(), HfForm(), options)


@pytest.mark.parametrize(
    "plan",
    [
        [],
        [planned("a", (3,))] * 2,
        [planned("a.weight", (16, 16), plans.FP8_BLOCKS), planned("a.weight_scale_inv", (1, 1))],
    ],
)
def test_plans_of_nothing_or_of_a_name_twice_are_refused(
    plan: list[PlannedTensor], tmp_path: Path
) -> None:
    with pytest.raises(GraphError, match="bad-plan"):
        write_checkpoint(tmp_path / "out", plan, HfForm(), OPTIONS)


def test_a_dry_run_tells_kinds_sizes_and_time(tmp_path: Path) -> None:
    ticks = iter(range(100))
    made: list[str] = []
    found = dry_run(counted(deepseek(), made), AscendForm(), OPTIONS, clock=lambda: next(ticks))
    result = write_checkpoint(tmp_path / "out", deepseek(), AscendForm(), OPTIONS)
    assert found.bytes == result.bytes
    assert found.files == len(list((tmp_path / "out").glob("*.safetensors")))
    kinds = {kind.kind: kind for kind in found.kinds}
    int4 = kinds["int4 per channel, inputs int8 dynamic"]
    assert (int4.tensors, int4.weights) == (6, 6 * 16 * 32)
    # Codes, scale and offset of each row, and a bias: one per row, 16 for `down`.
    assert int4.bytes == 6 * 256 + 2 * 8 * (16 + 16 + 32) + 2 * 4 * (16 + 16 + 16 * 32)
    assert int4.seconds == 6  # one each, a tick
    assert len(made) == len(found.kinds) == 5
    assert found.largest == 32 * 64
    assert found.left_out == 0
