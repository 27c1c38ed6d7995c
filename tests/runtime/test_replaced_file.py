"""Every file that is written: links and devices stay, and nothing half-written is left."""

import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.cli.output_file import prepare_output
from ascendfx.runtime.dumps.json_file import write_json
from ascendfx.runtime.dumps.tensor_dump import TensorDump, write_tensors_file
from ascendfx.runtime.engine.metrics import Metrics
from ascendfx.runtime.engine.metrics_file import write_metrics
from ascendfx.runtime.golden.golden_directory import beside, put_in_place
from ascendfx.runtime.package.write_tensors import TensorEntry, write_tensors
from ascendfx.runtime.replaced_file import replacing
from tests.bad_input.full_disk import files_no_larger_than

_ROOT = Path(__file__).parents[2]
_NO_FIGURES = Metrics(0, 0, 0, (), (), {}, {}, ())
Writer = Callable[[Path], object]


def _plain(file: Path) -> None:
    with replacing(file) as temporary:
        temporary.write_bytes(bytes(100))


def _weights(file: Path) -> None:
    write_tensors(file, [TensorEntry("x", DType.F32, (9,))], lambda _: np.zeros(9, np.float32))


WRITERS: dict[str, Writer] = {
    "plain": _plain,
    "json": lambda file: write_json(file, list(range(100))),
    "metrics": lambda file: write_metrics(_NO_FIGURES, file),
    "tensors": lambda file: write_tensors_file(file, TensorDump("run", (), {"x": np.zeros(30)})),
    "weights": _weights,
}
every_writer = pytest.mark.parametrize("write", WRITERS.values(), ids=WRITERS)


@every_writer
def test_what_a_link_points_to_is_written(write: Writer, tmp_path: Path) -> None:
    there = tmp_path / "there"
    there.mkdir()
    for name in ("old", "new"):
        link = tmp_path / name
        link.symlink_to(there / name)
    (there / "old").write_bytes(b"old")
    for name in ("old", "new"):
        write(tmp_path / name)
        assert (tmp_path / name).is_symlink()
        assert (there / name).stat().st_size > 10
    assert sorted(each.name for each in there.iterdir()) == ["new", "old"]
    assert len(list(tmp_path.iterdir())) == 3


@pytest.fixture
def pipe() -> Iterator[Path]:
    """Return what ``/dev/stdout`` is under a pager: a name whose target no path has."""
    numbers = os.pipe()
    yield Path(f"/proc/self/fd/{numbers[1]}")
    for number in numbers:
        os.close(number)


@every_writer
def test_pipes_devices_and_our_own_output_stay(write: Writer, pipe: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "fifo")
    (tmp_path / "null").symlink_to("/dev/null")
    (tmp_path / "pipe").symlink_to(pipe)
    before = sorted(tmp_path.iterdir())
    for name in ("fifo", "null", "pipe"):
        for attempt in (write, lambda file: prepare_output(file, tmp_path / "dump")):
            with pytest.raises(
                GraphError, match=f"{name} cannot be written: it is no regular file"
            ):
                attempt(tmp_path / name)
    assert sorted(tmp_path.iterdir()) == before
    assert (tmp_path / "null").is_char_device()


def test_the_file_to_which_a_command_prints_is_not_replaced(tmp_path: Path) -> None:
    code = (
        "import sys; from pathlib import Path\n"
        "from ascendfx.runtime.dumps.json_file import write_json\n"
        "write_json(Path(sys.argv[1]), [])"
    )
    for name in ("/dev/stdout", str(tmp_path / "out")):
        with (tmp_path / "out").open("w") as out:
            done = subprocess.run(
                [sys.executable, "-c", code, name],
                stdout=out,
                stderr=subprocess.PIPE,
                text=True,
                check=False,
                env={**os.environ, "PYTHONPATH": str(_ROOT)},
            )
        assert f"{name} cannot be written: what the command prints goes there" in done.stderr
    assert Path("/dev/stdout").is_symlink()


@every_writer
def test_a_full_disk_leaves_nothing_behind(write: Writer, tmp_path: Path) -> None:
    (tmp_path / "file").write_bytes(b"old")
    with files_no_larger_than(5), pytest.raises((GraphError, OSError)):
        write(tmp_path / "file")
    assert [each.name for each in tmp_path.iterdir()] == ["file"]
    assert (tmp_path / "file").read_bytes() == b"old"


def _interrupted(file: Path) -> None:
    with replacing(file) as temporary:
        temporary.write_bytes(b"half")
        raise KeyboardInterrupt


def test_an_interruption_leaves_nothing_behind(tmp_path: Path) -> None:
    with pytest.raises(KeyboardInterrupt):
        _interrupted(tmp_path / "file")
    assert not list(tmp_path.iterdir())


def test_a_golden_folder_behind_a_link_is_replaced_there(tmp_path: Path) -> None:
    there = tmp_path / "there"
    (there / "golden").mkdir(parents=True)
    (there / "golden" / "old").touch()
    link = tmp_path / "link"
    link.symlink_to(there / "golden")
    made = beside(link)
    made.mkdir()
    (made / "new").touch()
    put_in_place(made, link)
    assert link.is_symlink()
    assert [each.name for each in there.iterdir()] == ["golden"]
    assert [each.name for each in link.iterdir()] == ["new"]
    assert [each.name for each in tmp_path.iterdir() if each != link] == ["there"]
