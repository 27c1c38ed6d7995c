"""Draft layers in dumps: every distinct one has stages of its own, and all of them are compared."""

from pathlib import Path

import pytest
from click.testing import CliRunner

import ascendfx
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.dumps.json_file import read_json_file
from ascendfx.runtime.dumps.read_dump import read_dump
from tests.checkpoint.draft_checkpoint import write_checkpoint

PROMPTS = [[1, 2, 3], [5]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("two") / "model"
    directory.mkdir()
    write_checkpoint(
        directory, drafts=2, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, kv_lora_rank=16
    )
    return directory


def test_two_draft_layers_serve_three_depths_and_change_no_token(
    checkpoint: Path, tmp_path: Path
) -> None:
    def texts(drafts: int, dumps: Path | None) -> list[tuple[int, ...]]:
        engine = ascendfx.compile(
            checkpoint,
            dtype="float32",
            max_batch=2,
            max_context=64,
            draft_tokens=drafts,
            executor="reference",
            dump_dir=dumps,
            verify="each-pass" if dumps else None,
            verify_length=8 if dumps else None,
        )
        return [each.token_ids for each in engine.generate(PROMPTS, max_new_tokens=12)]

    assert texts(3, tmp_path / "dumps") == texts(0, None)
    dump = read_dump(tmp_path / "dumps")
    drafted = [f"draft{i}{plan}" for plan in ("", "-decode", "-prefill") for i in ("", "1")]
    assert [stage.name for stage in dump.stages] == ["serving", *drafted, "decode", "prefill"]
    assert list(dump.header.stages) == [stage.name for stage in dump.stages]
    by_name = {stage.name: stage for stage in dump.stages}
    for stage in dump.stages:
        for entry in read_json_file(stage.directory / "index.json", "passes"):
            assert entry["broken"] is None
            assert entry["error"]["max"] <= entry["error"]["bound"]
    names = [each.name for each in by_name["decode"].passes]
    assert names[len(by_name["decode"].on_tokens) :] == [
        "close-step",
        "fuse-mtp",
        "gather-earlier",
        "drop-placeholders",
        "share-common",
        "drop-unused",
    ]
    fused = by_name["decode"].program(len(names))
    assert {"cache.draft.0.0", "cache.draft.1.0", "cache.draft.2.0"} <= set(fused.main.input_types)
    found = CliRunner().invoke(cli, ["bisect", str(tmp_path / "dumps"), "--random", "0"])
    assert found.exit_code == 0, found.output
    compared = [line.split()[0] for line in found.stdout.splitlines()]
    assert set(drafted) <= set(compared)


def test_a_draft_without_draft_tokens_is_refused(checkpoint: Path) -> None:
    class Draft:
        def forward(self) -> None: ...

    with pytest.raises(ascendfx.GraphError, match=r"draft_tokens is 0.*\n\nhint: pass draft"):
        ascendfx.compile(checkpoint, draft=Draft())  # type: ignore[arg-type]
