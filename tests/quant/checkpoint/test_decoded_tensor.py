"""A model compiles from a quantized directory: with its codes, and numbers where it has none."""

import json
from pathlib import Path

import numpy as np
import pytest

import ascendfx
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.ops import Call
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.compressed_form import CompressedForm
from ascendfx.quant_passes.checkpoint.hf_form import HfForm
from ascendfx.quant_passes.checkpoint.planned_tensor import CheckpointForm, PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.insertion.chosen_lines import check_quantized, delivered_lines
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.open_checkpoint import Checkpoint, open_checkpoint
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint
from tests.quant.checkpoint.plans import W8A8_DYNAMIC


def planned(source: Checkpoint, name: str) -> PlannedTensor:
    shape, dtype = source.shape(name), source.dtype(name)
    if "_proj" not in name or "kv_b" in name:
        return PlannedTensor(name, shape, dtype, None, lambda: source.weight(name))

    def make() -> SavedWeight:
        spec = WeightSpec(W8A8_DYNAMIC.format, W8A8_DYNAMIC.granularity)
        return SavedWeight(MinMax().quantize(source.load(name), spec).tensor, "dynamic")

    return PlannedTensor(name, shape, dtype, W8A8_DYNAMIC, make)


def converted(place: Path, form: CheckpointForm) -> Path:
    model = Path(ascendfx.bundled_model())
    source = open_checkpoint(model)
    config = json.loads((model / "config.json").read_text())
    plan = [planned(source, name) for name in source.keys()]  # noqa: SIM118
    write_checkpoint(place, plan, form, WriteOptions(config, beside=model))
    return place


@pytest.mark.parametrize(
    "form",
    [
        AscendForm(),
        pytest.param(CompressedForm(), marks=pytest.mark.nightly),  # another configuration: traced
    ],
    ids=lambda form: form.name,
)
def test_programs_read_codes_and_the_numbers_of_codes(form: CheckpointForm, tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    plain = capture_model(converted(tmp_path / "hf", HfForm()), trace_folder=traces)
    found = capture_model(converted(tmp_path / form.name, form), trace_folder=traces)
    assert found.program == plain.program
    assert set(found.source.keys()) > set(plain.source.keys())
    for key in plain.source.keys():  # noqa: SIM118
        assert found.source.dtype(key) == plain.source.dtype(key)
        ours, expected = found.source.load(key), plain.source.load(key)
        np.testing.assert_array_equal(ours.astype(np.float32), expected.astype(np.float32))
    _check_codes(found, tmp_path / form.name)
    original = open_checkpoint(Path(ascendfx.bundled_model()))
    key = next(key for key in original.keys() if key.endswith("q_b_proj.weight"))  # noqa: SIM118
    assert not np.array_equal(plain.source.load(key), original.load(key))


def _check_codes(found: CapturedModel, folder: Path) -> None:
    """Each projection is one of codes, as ``quant="w8a8"`` makes them, and they are the stored."""
    stored, source = open_checkpoint(folder), found.source
    key = "model.layers.1.self_attn.q_b_proj.weight"
    weight = stored.weight(key).weight
    assert isinstance(weight, QuantizedTensor)
    np.testing.assert_array_equal(source.load(f"{key}#codes"), weight.codes)
    np.testing.assert_array_equal(source.load(f"{key}#scale"), weight.affine.scale[:, 0])
    experts = "model.layers.1.mlp.experts"
    codes, scale = (source.load(f"{experts}.gate_up_proj#{part}") for part in ("codes", "scale"))
    parts = [stored.weight(f"{experts}.2.{name}_proj.weight").weight for name in ("gate", "up")]
    rows = [part.codes for part in parts if isinstance(part, QuantizedTensor)]
    np.testing.assert_array_equal(codes[2], np.concatenate(rows))
    assert source.shape(f"{experts}.gate_up_proj#codes") == codes.shape
    assert source.shape(f"{experts}.gate_up_proj#scale") == scale.shape == codes.shape[:2]
    types = [source.dtype(f"{experts}.gate_up_proj#{part}") for part in ("codes", "scale")]
    assert types == [DType.I8, DType.F32]
    keys = set(source.keys())
    assert not any("kv_b_proj" in each for each in keys if "#" in each)
    made = InsertQuantization(delivered_lines(source.keys())).run(found.program).program
    check_quantized(made)
    wanted = {each for graph in made.graphs for node in graph.nodes for each in _keys(node.op)}
    assert wanted <= keys
    assert {each for each in keys if "#" in each and "layers.1." in each} <= wanted
    with pytest.raises(GraphError, match="there is no tensor"):
        source.load(f"{key}#zero")


def _keys(op: object) -> tuple[str, ...]:
    return tuple(key for _, key in op.keys) if isinstance(op, Call) else ()
