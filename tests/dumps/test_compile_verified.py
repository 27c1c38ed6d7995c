"""The whole chain: compile the bundled model verified and dumped, then bisect the dump."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from torch import device
from transformers import LlamaConfig, LlamaForCausalLM

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.dumps.json_file import read_json_file
from tests.dumps import planted


class DropSums(planted.sums_dropped):
    """The broken pass under a name of its own, as one of a user must have."""

    name = "drop-sums"


def test_the_bundled_model_is_verified_and_its_dump_is_sound(tmp_path: Path) -> None:
    compiled = compile_model(
        ascendfx.bundled_model(),
        verify="each-pass",
        verify_tokens=[[5, 17, 4000, 3, 9], [8, 8]],
        dump_dir=tmp_path,
        trace_folder=trace_folder_of(None),
    )
    assert {check.stage for check in compiled.checks} == {"serving", "decode", "prefill"}
    assert not [check for check in compiled.checks if check.broken]
    header = read_json_file(tmp_path / "dump.json", "a header")
    assert header["verify"] == {"mode": "each-pass", "tokens": [[5, 17, 4000, 3, 9], [8, 8]]}
    timing = read_json_file(tmp_path / "timing.json", "durations")
    assert timing["verification"] > 0
    for stage in header["stages"]:
        for entry in read_json_file(tmp_path / stage / "index.json", "passes"):
            assert entry["error"]["max"] <= entry["error"]["bound"]
    found = CliRunner().invoke(cli, ["bisect", str(tmp_path)])
    assert found.exit_code == 0, found.output
    assert found.stdout.endswith("every pass keeps its fidelity\n")


def test_a_model_without_weights_is_refused() -> None:
    config = LlamaConfig(
        hidden_size=32,
        intermediate_size=64,
        num_attention_heads=2,
        num_hidden_layers=1,
        vocab_size=64,
    )
    with device("meta"):
        model = LlamaForCausalLM(config).eval()
    with pytest.raises(GraphError, match=r"error\[missing-tensor\]: .* is on the meta device"):
        compile_model(model, verify="each-pass")


def test_a_broken_pass_of_a_user_stops_and_is_found_again_in_its_dump(tmp_path: Path) -> None:
    with pytest.raises(GraphError, match=r"error\[fidelity-broken\]: pass `drop-sums`") as caught:
        compile_model(
            ascendfx.bundled_model(),
            passes=(DropSums(),),
            verify="each-pass",
            dump_dir=tmp_path / "dump",
            trace_folder=trace_folder_of(None),
        )
    assert caught.value.hint.startswith(f"`ascendfx reduce {tmp_path / 'dump'} -o case.json`")
    found = CliRunner().invoke(cli, ["bisect", str(tmp_path / "dump")])
    assert found.exit_code == 1, found.output
    assert "pass: drop-sums (serving/11-drop-sums.ir), declared bitwise" in found.stdout
    assert "modeling_deepseek_v3.py:" in found.stdout
    case = tmp_path / "case.json"
    reduced = CliRunner().invoke(cli, ["reduce", str(tmp_path / "dump"), "-o", str(case)])
    assert reduced.exit_code == 0, reduced.output
    assert "case.json: 1 node before" in reduced.stdout
