"""A model compiles from a quantized directory with the numbers that its codes stand for."""

import json
from pathlib import Path

import numpy as np

import ascendfx
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.compressed_form import CompressedForm
from ascendfx.quant_passes.checkpoint.hf_form import HfForm
from ascendfx.quant_passes.checkpoint.planned_tensor import CheckpointForm, PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
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


def test_programs_read_the_numbers_of_the_codes(tmp_path: Path) -> None:
    traces = tmp_path / "traces"
    plain = capture_model(converted(tmp_path / "hf", HfForm()), trace_folder=traces)
    for form in (AscendForm(), CompressedForm()):
        found = capture_model(converted(tmp_path / form.name, form), trace_folder=traces)
        assert found.program == plain.program
        assert set(found.source.keys()) == set(plain.source.keys())
        for key in plain.source.keys():  # noqa: SIM118
            assert found.source.dtype(key) == plain.source.dtype(key)
            ours, expected = found.source.load(key), plain.source.load(key)
            np.testing.assert_array_equal(ours.astype(np.float32), expected.astype(np.float32))
    original = open_checkpoint(Path(ascendfx.bundled_model()))
    key = next(key for key in original.keys() if key.endswith("q_b_proj.weight"))  # noqa: SIM118
    assert not np.array_equal(plain.source.load(key), original.load(key))
