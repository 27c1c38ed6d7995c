"""Two compilations of one model leave the same bytes: dumps, kernels, plans and weights."""

import hashlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

_CHILD = """
import os, sys
os.cpu_count = lambda: int(sys.argv[2])
from pathlib import Path
import ascendfx
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.package.save_package import save_package
folder = Path(sys.argv[1])
traces = trace_folder_of(None) if sys.argv[3] == "kept" else None
compiled = compile_model(
    ascendfx.bundled_model(),
    strategy=sys.argv[4],
    dump_dir=folder / "dump",
    trace_folder=traces,
)
save_package(compiled, folder / "pkg")
"""


def _digests(folder: Path) -> dict[str, str]:
    return {
        str(path.relative_to(folder)): hashlib.sha256(path.read_bytes()).hexdigest()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and path.name != "timing.json"
    }


@pytest.mark.parametrize(
    ("trace", "strategy"),
    [
        ("kept", "ordered"),
        pytest.param("fresh", "ordered", marks=pytest.mark.nightly),
        pytest.param("kept", "search", marks=pytest.mark.nightly),
    ],
)
def test_dumps_and_kernels_do_not_depend_on_hashes_or_jobs(
    tmp_path: Path, trace: str, strategy: str
) -> None:
    folders = [tmp_path / "one", tmp_path / "other"]
    children = [
        subprocess.Popen(
            [sys.executable, "-c", _CHILD, str(folder), jobs, trace, strategy],
            env={**os.environ, "PYTHONHASHSEED": seed},
        )
        for folder, seed, jobs in zip(folders, ("1", "4711"), ("1", "7"), strict=True)
    ]
    assert [child.wait() for child in children] == [0, 0]
    one, other = map(_digests, folders)
    assert [path for path in one if one[path] != other.get(path)] == []
    assert one.keys() == other.keys()
    assert {"dump/dump.json", "dump/decode/plan.json", "pkg/weights.safetensors"} <= one.keys()
    assert sum(path.startswith("dump/prefill/kernels/") for path in one) > 10
