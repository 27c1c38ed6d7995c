"""Places that cannot be written and disks that are full: one error, and nothing half-written.

The kernel cache there, and two processes that share it: ``tests/emulator/test_kernel_cache.py``. A
single file of tensors: ``tests/runtime/test_write_tensors.py``.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from ascendfx import GraphError
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.package.load_package import load
from ascendfx.runtime.package.save_package import save_package
from tests.bad_input.ended import Command
from tests.bad_input.full_disk import files_no_larger_than

NOWHERE = Path("/proc/ascendfx")
"""Not even the super-user can make a folder here."""


def test_a_package_that_cannot_be_written_is_one_error(compiled: CompiledModel) -> None:
    with pytest.raises(GraphError) as caught:
        save_package(compiled, NOWHERE / "pkg")
    assert caught.value.code == "not-writable"
    assert str(NOWHERE / "pkg") in caught.value.reason
    assert caught.value.hint


@pytest.mark.parametrize("limit", [0, 1000, 20_000])
def test_a_disk_that_becomes_full_leaves_nothing_behind(
    limit: int, compiled: CompiledModel, tmp_path: Path
) -> None:
    with files_no_larger_than(limit), pytest.raises(GraphError) as caught:
        save_package(compiled, tmp_path / "pkg")
    assert caught.value.code in {"not-writable", "disk-full"}
    assert "File too large" in caught.value.reason
    assert not list(tmp_path.iterdir())


def test_an_older_package_survives_a_full_disk(package: Path, compiled: CompiledModel) -> None:
    before = {each.relative_to(package): each.read_bytes() for each in files(package)}
    with files_no_larger_than(1000), pytest.raises(GraphError):
        save_package(compiled, package)
    assert {each.relative_to(package): each.read_bytes() for each in files(package)} == before
    assert [each.name for each in package.parent.iterdir()] == ["pkg"]


def files(folder: Path) -> list[Path]:
    return [each for each in folder.rglob("*") if each.is_file()]


def test_dumps_that_cannot_be_written_are_one_error(
    checkpoint: Path, tmp_path: Path, command: Command
) -> None:
    ended = command("compile", checkpoint, "-o", tmp_path / "pkg", "--dump-dir", NOWHERE)
    assert (ended.code, ended.out) == (1, "")
    assert ended.error.startswith("error[not-writable]: ")
    assert str(NOWHERE) in ended.error
    assert not (tmp_path / "pkg").exists()


def test_a_kernel_cache_that_cannot_be_written_is_one_error(saved: Path) -> None:
    with pytest.raises(GraphError) as caught:
        load(saved, kernel_cache=NOWHERE)
    assert caught.value.code == "cache-not-writable"
    assert str(NOWHERE) in caught.value.reason


FULL_DISK = """
mount -t tmpfs -o size=200k tmpfs "$0" || exit 77
"$@"
code=$?
ls -A "$0"
exit $code
"""


def test_a_disk_that_is_really_full_is_one_error(original: Path, tmp_path: Path) -> None:
    """Where the kernel lets users mount; the tests above need no such right."""
    disk = tmp_path / "disk"
    disk.mkdir()
    main = "from ascendfx.runtime.cli.main import main; main()"
    arguments = ["compile", str(original), "-o", str(disk / "pkg")]
    unshare = shutil.which("unshare")
    if unshare is None:
        return
    done = subprocess.run(
        [
            unshare,
            "-rm",
            "sh",
            "-c",
            FULL_DISK,
            str(disk),
            sys.executable,
            "-c",
            main,
            *arguments,
        ],
        capture_output=True,
        text=True,
        check=False,
        env={**os.environ, "PYTHONWARNINGS": "ignore"},
    )
    if done.returncode == 77 or "unshare" in done.stderr:
        return
    assert done.returncode == 1
    assert done.stderr.startswith(f"error[disk-full]: {disk / 'pkg'}")
    assert "No space left on device" in done.stderr
    assert "Traceback" not in done.stderr
    assert done.stdout == "", "files were left on the disk"
