"""Row h with processes of torch.distributed on this machine."""

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.evaluate.workers import join_group

ROOT = Path(__file__).parents[2]
ROWS = [
    {"input_ids": list(range(2, 2 + length)), "language": language}
    for length, language in [(5, "en"), (9, "de"), (3, "en"), (12, "ko"), (7, "de")]
]


def test_one_two_and_four_processes_say_the_same(tmp_path: Path) -> None:
    pytest.importorskip("torch", reason="several workers need torch")
    file = tmp_path / "set.jsonl"
    file.write_text("\n".join(map(json.dumps, ROWS)), encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-m", "tests.evaluate.gloo_workers", str(file), str(tmp_path)],
        cwd=ROOT,
        env={**os.environ, "GLOO_SOCKET_IFNAME": "lo", "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    texts = {path.name: path.read_text(encoding="utf-8") for path in tmp_path.glob("*.?.?")}
    assert len(texts) == 2 * (1 + 2 + 4)
    assert len(set(texts.values())) == 1
    found = json.loads(texts["data.4.0"])["tasks"]["perplexity"]["all"]
    assert found["samples"] == len(ROWS)
    assert found["kl"] > 0


def test_a_way_to_talk_that_is_not_there_is_refused() -> None:
    with pytest.raises(GraphError, match="no way to talk among workers is called `mpi`"):
        join_group(0, 2, backend="mpi")
    with pytest.raises(GraphError) as caught:
        join_group(0, 2, backend="hccl")
    assert caught.value.code == "missing-package"
    assert "torch_npu" in caught.value.reason
