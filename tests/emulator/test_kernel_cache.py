"""The cache of compiled kernels: hits, damage, two processes, and a computer that lacks things.

Every test gets a cache of its own whose compiled emulator is a copy of the user's, so that only
the kernel is compiled.
"""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import Checks, EmulatorError, build_kernels, shared_object
from ascendfx.runtime.emulator.kernel_cache import (
    content_key,
    default_cache_dir,
    is_intact,
    publish,
)
from ascendfx.runtime.emulator.library import build_library
from tests.emulator.vector_kernel import make_kernel, result

TARGET = find_target("ascend910b2")


def fill_kernel(value: int) -> Kernel:
    body = f"""
InitSocState();
LocalTensor<float> t(TPosition::VECOUT, 0, 64);
Duplicate(t, {value}.0f, 64);
SetFlag<HardEvent::V_MTE3>(0);
WaitFlag<HardEvent::V_MTE3>(0);
DataCopy(yGm, t, 64);
PipeBarrier<PIPE_ALL>();
"""
    return make_kernel("fill", body, [result(DType.F32, "y", 64)])


def filled(kernel: Kernel, cache: Path) -> float:
    y = np.zeros(64, np.float32)
    build_kernels([kernel], TARGET, cache_dir=cache)[kernel.name].launch([y])
    assert np.all(y == y[0])
    return float(y[0])


@pytest.fixture
def cache(tmp_path: Path) -> Path:
    library = build_library(default_cache_dir(), Checks())
    root = tmp_path / "cache" / "emulator"
    (root / library.headers.name).mkdir(parents=True)
    (root / "libraries").mkdir()
    shutil.copy(library.path, root / "libraries")
    for path in library.headers.iterdir():
        if path.suffix in {".h", ".gch"} or path.name == "complete":
            shutil.copy(path, root / library.headers.name)
    return tmp_path / "cache"


def entries(cache: Path) -> list[Path]:
    return sorted(cache.glob("emulator/*/fill-*.so"))


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        pytest.fail("something was compiled although the cache has it")

    monkeypatch.setattr(shared_object, "run_compiler", refuse)


def test_a_second_build_compiles_nothing(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert filled(fill_kernel(3), cache) == 3
    forbid_compiling(monkeypatch)
    assert filled(fill_kernel(3), cache) == 3


def test_another_text_is_another_entry(cache: Path) -> None:
    assert [filled(fill_kernel(value), cache) for value in (3, 4)] == [3, 4]
    assert len(entries(cache)) == 2


@pytest.mark.parametrize("damage", ["truncate", "flip", "empty"])
def test_a_damaged_entry_is_built_again(cache: Path, damage: str) -> None:
    filled(fill_kernel(3), cache)
    (entry,) = entries(cache)
    data = bytearray(entry.read_bytes())
    if damage == "flip":
        data[len(data) // 2] ^= 1
    broken = {"truncate": data[:-100], "flip": data, "empty": b""}[damage]
    entry.unlink()  # the loaded one stays mapped
    entry.write_bytes(broken)
    assert not is_intact(entry)
    build_kernels([fill_kernel(3)], TARGET, cache_dir=cache)
    assert is_intact(entry)


def test_two_processes_build_the_same_kernel_at_once(cache: Path) -> None:
    program = (
        "import sys; from pathlib import Path\n"
        "from tests.emulator.test_kernel_cache import fill_kernel, filled\n"
        "sys.exit(0 if filled(fill_kernel(5), Path(sys.argv[1])) == 5 else 1)\n"
    )
    command = [sys.executable, "-c", program, str(cache)]
    root = Path(__file__).parents[2]
    running = [subprocess.Popen(command, cwd=root) for _ in range(2)]
    assert [process.wait() for process in running] == [0, 0]
    assert len(entries(cache)) == 1
    assert not list(cache.glob("emulator/*/build-*")), "scratch folders were left behind"


def test_without_a_home_the_cache_must_be_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def no_home() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", no_home)
    with pytest.raises(GraphError, match=r"cache-not-writable.*no home directory") as caught:
        default_cache_dir()
    assert "`kernel_cache`" in caught.value.hint  # the command line makes an option of it


def test_a_read_only_cache_serves_what_it_has_and_says_so_otherwise(cache: Path) -> None:
    filled(fill_kernel(3), cache)
    kernels = entries(cache)[0].parent
    kernels.chmod(0o500)
    try:
        assert filled(fill_kernel(3), cache) == 3
        if os.geteuid() != 0:  # the super-user may write everywhere
            with pytest.raises(GraphError, match="cannot be stored"):
                filled(fill_kernel(4), cache)
    finally:
        kernels.chmod(0o700)


def test_a_cache_that_cannot_be_written_is_one_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder")
    with pytest.raises(GraphError) as caught:
        build_kernels([fill_kernel(3)], TARGET, cache_dir=tmp_path / "file")
    assert caught.value.code == "cache-not-writable"
    assert "XDG_CACHE_HOME" in caught.value.hint


def test_a_full_disk_is_one_clear_error(
    cache: Path, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    def full(self: Path, *_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", str(self))

    build_library(cache, Checks())
    monkeypatch.setattr(Path, "write_text", full)
    with pytest.raises(GraphError, match="No space left on device"):
        build_kernels([fill_kernel(6)], TARGET, cache_dir=cache)
    monkeypatch.undo()
    built = tmp_path / "built"
    built.write_bytes(b"content")
    monkeypatch.setattr(Path, "replace", full)
    with pytest.raises(GraphError, match="No space left on device"):
        publish(built, tmp_path / "entry")


def test_a_missing_compiler_is_named_with_its_remedy(
    cache: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(GraphError) as caught:
        build_kernels([fill_kernel(3)], TARGET, cache_dir=cache)
    assert caught.value.code == "no-compiler"
    assert "apt-get install g++" in caught.value.hint


def test_a_text_that_does_not_compile_shows_the_compilers_lines(cache: Path) -> None:
    broken = make_kernel("fill", "Frobnicate(1);", [result(DType.F32, "y", 64)])
    with pytest.raises(GraphError, match="kernel `fill`: the host compiler refuses it") as caught:
        build_kernels([broken], TARGET, cache_dir=cache)
    assert "fill.cpp:7:1: error: 'Frobnicate' was not declared" in caught.value.excerpt


def test_keys_do_not_confuse_where_parts_end() -> None:
    assert content_key("ab", "c") != content_key("a", "bc")


def test_kernels_of_different_checks_live_in_one_process() -> None:
    poisoned = make_kernel(
        "fill", "InitSocState();\nLocalTensor<float> t(TPosition::VECOUT, 0, 64);\n"
        "DataCopy(yGm, t, 64);\nPipeBarrier<PIPE_ALL>();", [result(DType.F32, "y", 64)],
    )  # fmt: skip
    strict = build_kernels([poisoned], TARGET)["fill"]
    loose = build_kernels([poisoned], TARGET, checks=Checks(races=False, poison=False))["fill"]
    y = np.zeros(64, np.float32)
    loose.launch([y])
    with pytest.raises(EmulatorError, match="was never written"):
        strict.launch([y])
    loose.launch([y])


def test_a_kernel_may_have_the_name_of_a_library_function() -> None:
    kernel = fill_kernel(3)
    named = Kernel(
        "poll", "test", kernel.kind, 1, kernel.arguments, kernel.source.replace("fill(", "poll(")
    )
    y = np.zeros(64, np.float32)
    build_kernels([named], TARGET)["poll"].launch([y])
    assert np.all(y == 3)


@pytest.mark.parametrize("problem", ["count", "format", "contiguous", "read-only"])
def test_arrays_that_do_not_fit_are_refused(problem: str) -> None:
    kernel = build_kernels([fill_kernel(3)], TARGET)["fill"]
    y = np.zeros(64, np.float32)
    y.flags.writeable = problem != "read-only"
    arrays = {
        "count": [y, y],
        "format": [y.astype(np.float64)],
        "contiguous": [np.zeros(128, np.float32)[::2]],
        "read-only": [y],
    }[problem]
    with pytest.raises(GraphError) as caught:
        kernel.launch(arrays)
    assert caught.value.code == "launch-arguments"
