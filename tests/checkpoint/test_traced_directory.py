"""A kept trace is what tracing again yields, needs no torch, and is never believed when stale."""

import json
import shutil
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file, save_file

import ascendfx
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import Graph
from ascendfx.ir.location import UNKNOWN, Location
from ascendfx.ir.portable_path import portable_name
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checkpoint import capture_model as module
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.traced_directory import (
    TracedDirectory,
    read_trace,
    trace_file,
    write_trace,
)

MODEL = ascendfx.bundled_model()


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("traces")
    capture_model(MODEL, dtype=DType.F32, trace_folder=folder)
    return folder


@pytest.fixture(scope="module")
def fresh(tmp_path_factory: pytest.TempPathFactory) -> CapturedModel:
    """What tracing yields; there is no place to keep it."""
    blocked = tmp_path_factory.mktemp("blocked") / "file"
    blocked.write_text("")
    return capture_model(MODEL, dtype=DType.F32, trace_folder=blocked / "traces")


def no_tracing(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("traced again")

    monkeypatch.setattr(module, "_trace", fail)


def test_a_kept_trace_is_what_tracing_yields(
    folder: Path, fresh: CapturedModel, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_tracing(monkeypatch)
    kept = capture_model(MODEL, dtype=DType.F32, trace_folder=folder)
    assert kept.program == fresh.program
    assert kept.facts == fresh.facts
    assert kept.remarks == fresh.remarks
    for one, other in zip(kept.program.graphs, fresh.program.graphs, strict=True):
        assert [node.location for node in one.nodes] == [node.location for node in other.nodes]
    assert set(kept.source.keys()) == set(fresh.source.keys())
    for key in fresh.source.keys():  # noqa: SIM118  # not a mapping
        np.testing.assert_array_equal(kept.source.load(key), fresh.source.load(key))


def test_a_kept_trace_needs_no_torch(folder: Path) -> None:
    code = (
        "import sys; from pathlib import Path; import ascendfx\n"
        "from ascendfx.ir.tensor_type import DType\n"
        "from ascendfx.runtime.checkpoint.capture_model import capture_model\n"
        f"folder = Path({str(folder)!r})\n"
        "capture_model(ascendfx.bundled_model(), dtype=DType.F32, trace_folder=folder)\n"
        "assert not {'torch', 'transformers'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def files_of(traced: TracedDirectory) -> set[str]:
    return {node.location.file for graph in traced.program.graphs for node in graph.nodes}


def test_lines_are_those_of_the_installation_that_reads(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = trace_file(folder, MODEL, DType.F32)
    assert file is not None
    kept = read_trace(file)
    assert kept is not None
    here = files_of(kept) - {UNKNOWN.file}
    assert any(each.endswith("modeling_deepseek_v3.py") for each in here)
    assert all(Path(each).is_absolute() and Path(each).is_file() for each in here)
    # Another virtual environment has the same versions, and shares the folder.
    names = [portable_name(each) for each in here]
    text = file.read_bytes()
    assert not any(each.encode() in text for each in here)
    other = tmp_path / "site-packages"
    for name in names:
        assert name is not None
        (other / name).parent.mkdir(parents=True, exist_ok=True)
        (other / name).touch()
    monkeypatch.setattr("sys.path", [str(other)])
    there = read_trace(file)
    assert there is not None
    assert files_of(there) - {UNKNOWN.file} == {str(other / str(name)) for name in names}
    # A file that is gone is named by no message: the model is traced again.
    shutil.rmtree(other / "transformers" / "models")
    assert read_trace(file) is None


def test_lines_of_no_installed_package_are_not_kept(folder: Path, tmp_path: Path) -> None:
    file = trace_file(folder, MODEL, DType.F32)
    assert file is not None
    kept = read_trace(file)
    assert kept is not None
    graph = kept.program.main
    own = Location(str(tmp_path / "model.py"), 3)
    nodes = (replace(graph.nodes[0], location=own), *graph.nodes[1:])
    moved = Program((Graph(graph.name, nodes, graph.outputs), *kept.program.graphs[1:]))
    write_trace(tmp_path / "one", kept)
    write_trace(tmp_path / "other", replace(kept, program=moved))
    assert [path.name for path in tmp_path.iterdir()] == ["one"]


def copy_of(tmp_path: Path) -> Path:
    target = tmp_path / "model"
    shutil.copytree(MODEL, target, ignore=shutil.ignore_patterns("texts", "train"))
    return target


def test_a_weight_file_that_does_not_fit_is_refused_all_the_same(
    folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    no_tracing(monkeypatch)
    model = copy_of(tmp_path)
    tensors = {"model.norm.weight": np.ones(192, np.float32)}
    save_file(tensors, model / "model.safetensors")
    with pytest.raises(GraphError, match=r"error\[missing-tensor\]"):
        capture_model(model, dtype=DType.F32, trace_folder=folder)


def test_another_configuration_or_format_is_another_trace(folder: Path, tmp_path: Path) -> None:
    same = trace_file(folder, MODEL, DType.F32)
    assert same is not None
    assert same.is_file()
    assert trace_file(folder, MODEL, DType.BF16) != same
    model = copy_of(tmp_path)
    assert trace_file(folder, model, DType.F32) == same
    config = json.loads((model / "config.json").read_text(encoding="utf-8"))
    (model / "config.json").write_text(json.dumps({**config, "rms_norm_eps": 1e-5}))
    assert trace_file(folder, model, DType.F32) != same
    # Code beside the configuration may be anything.
    (model / "config.json").write_text(json.dumps({**config, "auto_map": {}}))
    assert trace_file(folder, model, DType.F32) is None


@pytest.mark.parametrize("damage", ["missing", "cut", "other"])
def test_a_damaged_file_is_traced_again(folder: Path, tmp_path: Path, damage: str) -> None:
    file = tmp_path / "trace.safetensors"
    kept = trace_file(folder, MODEL, DType.F32)
    assert kept is not None
    if damage == "cut":
        file.write_bytes(kept.read_bytes()[:-100])
    if damage == "other":
        save_file(load_file(kept), file, metadata={"traced": '{"program": "graph"}'})
    assert read_trace(file) is None


def test_a_folder_that_cannot_be_written_does_not_matter(fresh: CapturedModel) -> None:
    assert fresh.program.graphs
