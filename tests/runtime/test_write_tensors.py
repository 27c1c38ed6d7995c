"""Files written tensor by tensor are what the safetensors library reads, or do not exist."""

import shutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from numpy.typing import NDArray
from safetensors import safe_open

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.checkpoint.safetensors_file import read_header
from ascendfx.runtime.package.write_tensors import TensorEntry, write_tensors

ENTRIES = st.lists(
    st.builds(
        TensorEntry,
        st.from_regex(r"[a-z.#]{1,8}", fullmatch=True),
        st.sampled_from([DType.F32, DType.BF16, DType.F16, DType.I32, DType.I64, DType.I8]),
        st.lists(st.integers(0, 4), max_size=3).map(tuple),
    ),
    max_size=5,
    unique_by=lambda entry: entry.name,
)


def tensor(entry: TensorEntry) -> NDArray[Any]:
    seed = [ord(letter) for letter in entry.name]
    return np.random.default_rng(seed).integers(-9, 9, entry.shape).astype(entry.dtype.numpy)


def write(path: Path, entries: list[TensorEntry]) -> None:
    by_name = {entry.name: entry for entry in entries}
    write_tensors(path, entries, lambda name: tensor(by_name[name]))


@given(entries=ENTRIES)
@settings(max_examples=40, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_the_library_reads_what_was_written(entries: list[TensorEntry], tmp_path: Path) -> None:
    path = tmp_path / "weights.safetensors"
    write(path, entries)
    with safe_open(path, framework="pt") as file:
        assert sorted(file.keys()) == sorted(entry.name for entry in entries)
        for entry in entries:
            found = file.get_tensor(entry.name)
            assert tuple(found.shape) == entry.shape
            np.testing.assert_array_equal(found.double().numpy(), tensor(entry).astype(float))
    for name, stored in read_header(path).items():
        entry = next(each for each in entries if each.name == name)
        np.testing.assert_array_equal(stored.load(), tensor(entry))


ONE = [TensorEntry("w", DType.F32, (4,))]


def test_a_failure_half_way_leaves_nothing(tmp_path: Path) -> None:
    def fail(name: str) -> NDArray[Any]:
        raise GraphError("missing-tensor", name)

    with pytest.raises(GraphError, match="missing-tensor"):
        write_tensors(tmp_path / "w.safetensors", ONE, fail)
    assert list(tmp_path.iterdir()) == []


def test_an_old_file_survives_a_failure(tmp_path: Path) -> None:
    path = tmp_path / "w.safetensors"
    write(path, ONE)
    before = path.read_bytes()
    with pytest.raises(AssertionError, match="was announced"):
        write_tensors(path, ONE, lambda _: np.zeros(3, np.float32))
    assert path.read_bytes() == before
    assert list(tmp_path.iterdir()) == [path]


def test_a_disk_without_room_is_refused_before_writing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    usage = shutil.disk_usage(tmp_path)._replace(free=10)
    monkeypatch.setattr(shutil, "disk_usage", lambda _: usage)
    with pytest.raises(GraphError, match=r"error\[disk-full\]: .* needs \d+ bytes, 10 are free"):
        write(tmp_path / "w.safetensors", ONE)
    assert list(tmp_path.iterdir()) == []
