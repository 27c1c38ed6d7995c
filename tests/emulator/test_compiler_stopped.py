"""A compiler that the computer ends blames no kernel; and what killed processes leave behind."""

import fcntl
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.emulator import kernel_cache
from ascendfx.runtime.emulator.kernel_cache import remove_left_behind, scratch_directory
from ascendfx.runtime.emulator.shared_object import build_object
from ascendfx.runtime.emulator.toolchain import run_compiler


def _compiler(folder: Path, body: str) -> str:
    file = folder / "g++"
    file.write_text(f"#!/bin/sh\n{body}\n", encoding="utf-8")
    file.chmod(0o755)
    return str(file)


@pytest.mark.parametrize(
    ("body", "why"),
    [
        ("kill -9 $$", "killed by SIGKILL"),
        ("kill -24 $$", "killed by SIGXCPU"),
        ("exit 137", "killed by SIGKILL"),
        (
            "echo 'g++: fatal error: Killed signal terminated program cc1plus' >&2; exit 1",
            "Killed signal terminated program",
        ),
        ("echo 'x.cpp:3: internal compiler error: Segmentation' >&2; exit 4", "internal compiler"),
        ("echo 'cc1plus: out of memory allocating 65536 bytes' >&2; exit 1", "out of memory"),
        ("echo 'virtual memory exhausted: Cannot allocate' >&2; exit 1", "memory exhausted"),
        ("echo 'fatal error: error writing to x.o: File too large' >&2; exit 1", "File too large"),
    ],
)
def test_the_computer_is_blamed(body: str, why: str, tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="kernel `k`: the host compiler did not") as caught:
        run_compiler(_compiler(tmp_path, body), [], tmp_path, "kernel `k`")
    assert caught.value.code == "compiler-stopped"
    assert why in caught.value.reason
    assert "memory" in caught.value.hint
    assert "Ascend C" not in caught.value.hint


def test_a_compiler_that_does_not_start_is_no_traceback(tmp_path: Path) -> None:
    file = tmp_path / "g++"
    file.write_text("not a program", encoding="utf-8")
    file.chmod(0o755)
    with pytest.raises(GraphError, match="cannot be started") as caught:
        run_compiler(str(file), [], tmp_path, "kernel `k`")
    assert caught.value.code == "compiler-stopped"


@pytest.mark.parametrize("text", ["k.cpp:1: error: no `Foo`", "", "\\377 strange bytes"])
def test_other_failures_blame_the_kernel(text: str, tmp_path: Path) -> None:
    compiler = _compiler(tmp_path, f"printf '{text}' >&2; exit 1")
    with pytest.raises(GraphError) as caught:
        run_compiler(compiler, [], tmp_path, "kernel `k`")
    assert caught.value.code == "kernel-does-not-compile"


def test_success_without_a_file_is_not_kept(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match="it wrote no file") as caught:
        build_object(tmp_path / "c" / "k.so", {}, [], _compiler(tmp_path, "exit 0"), "kernel `k`")
    assert caught.value.code == "compiler-stopped"
    assert not list((tmp_path / "c").iterdir())


def _aged(folder: Path, seconds: float) -> None:
    then = time.time() - seconds
    os.utime(folder, (then, then))


def test_scratch_folders_of_killed_processes_are_removed(tmp_path: Path) -> None:
    code = (
        "import sys, time; from pathlib import Path\n"
        "from ascendfx.runtime.emulator.kernel_cache import scratch_directory\n"
        "with scratch_directory(Path(sys.argv[1]) / 'key') as folder:\n"
        "    (folder / 'k.cpp').touch(); print(folder, flush=True); time.sleep(600)\n"
    )
    run = [sys.executable, "-c", code, str(tmp_path)]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        folder = Path(process.stdout.readline().strip())
        _aged(folder, 1e6)
        remove_left_behind.cache_clear()
        remove_left_behind(tmp_path)
        assert (folder / "k.cpp").is_file()  # it is in use
        process.send_signal(signal.SIGTERM)
    assert folder.is_dir()
    remove_left_behind.cache_clear()
    remove_left_behind(tmp_path)
    assert not folder.exists()


def test_what_may_belong_to_somebody_stays(tmp_path: Path) -> None:
    for name in ("build-young", "build-old", "key/build-old", "other", "key/build-held"):
        (tmp_path / name).mkdir(parents=True)
    for name in ("build-old", "key/build-old", "other"):
        _aged(tmp_path / name, 1e6)
    (tmp_path / "build-link").symlink_to(tmp_path / "other")
    lock = tmp_path / "key" / "build-held" / kernel_cache._OWNER
    with lock.open("a") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        _aged(lock.parent, 1e6)
        remove_left_behind.cache_clear()
        remove_left_behind(tmp_path)
    left = sorted(str(each.relative_to(tmp_path)) for each in tmp_path.rglob("*"))
    assert left == [
        *("build-link", "build-young", "key", "key/build-held"),
        *(f"key/build-held/{lock.name}", "other"),
    ]


def test_a_scratch_folder_is_gone_behind_its_block(tmp_path: Path) -> None:
    with scratch_directory(tmp_path) as folder:
        assert folder.parent == tmp_path
    assert not list(tmp_path.iterdir())
