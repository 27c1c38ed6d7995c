"""DeepSeek-V3 at full size: built and captured without weights, at a cost that ignores depth."""

import json
import subprocess
import sys
from pathlib import Path

import pytest
from transformers import DeepseekV3Config

from tests.capture.tiny_models import yarn

CHILD = """
import json, resource, sys
from pathlib import Path
from ascendfx.ir.capture import capture_program
from ascendfx.ir.capture.build_model import build_model
from ascendfx.ir.capture.capture_module import capture_module

traced, export = [], capture_program.export_model
def export_model(module, hidden):
    traced.append(sum(type(each).__name__.endswith("DecoderLayer") for each in module.modules()))
    return export(module, hidden)
capture_program.export_model = export_model
model = build_model(Path(sys.argv[1]), None)
captured = capture_module(model)
print(json.dumps({
    "parameters": sum(p.numel() for p in model.parameters()),
    "traced": traced,
    "peak_bytes": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024,
    "functions": [len(graph.nodes) for graph in captured.program.graphs[1:]],
    "calls": sum(node.op.mnemonic == "call" for node in captured.program.main.nodes),
    "remarks": captured.remarks,
    "frequencies": captured.source.load("model.rotary_emb.inv_freq").tolist(),
}))
"""


def capture_in_a_process(directory: Path, layers: int) -> dict:
    # The defaults of the configuration are those of the published model.
    config = DeepseekV3Config(
        num_hidden_layers=layers, dtype="bfloat16", rope_parameters=yarn(1.0, 1.0)
    )
    config.save_pretrained(directory)
    done = subprocess.run(
        [sys.executable, "-c", CHILD, str(directory)], check=True, stdout=subprocess.PIPE, text=True
    )
    return json.loads(done.stdout.splitlines()[-1])


def test_671_billion_parameters_are_captured_from_a_few_layers(tmp_path: Path) -> None:
    found = capture_in_a_process(tmp_path, 61)
    assert found["parameters"] == 671_026_404_352
    assert found["calls"] == 61
    assert len(found["functions"]) == 2
    assert found["remarks"] == []
    assert found["traced"] == [4]
    assert found["peak_bytes"] < 2 * 2**30
    assert found["frequencies"][0] == 1.0, "buffers that the constructor computes have values"
    assert len(found["frequencies"]) == 32


@pytest.mark.nightly
def test_depth_costs_one_call_per_layer(tmp_path: Path) -> None:
    shallow, deep = (capture_in_a_process(tmp_path / str(n), n) for n in (8, 61))
    assert shallow["functions"] == deep["functions"]
    assert shallow["traced"] == deep["traced"]
