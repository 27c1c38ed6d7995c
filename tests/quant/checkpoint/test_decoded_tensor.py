"""A model compiles from a quantized directory: with its codes, and numbers where it has none."""

import json
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

import ascendfx
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.code_pairs import unpack_pairs
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.ops import Call, GroupedLinear, Linear
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.algorithms.min_max import MinMax
from ascendfx.quant_passes.algorithms.weight_algorithm import WeightSpec
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.compressed_form import CompressedForm
from ascendfx.quant_passes.checkpoint.hf_form import HfForm
from ascendfx.quant_passes.checkpoint.planned_tensor import CheckpointForm, PlannedTensor
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.checkpoint.weight_place import WeightPlace
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.insertion.chosen_lines import check_quantized, delivered_lines
from ascendfx.quant_passes.insertion.insert_quantization import InsertQuantization
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import PerChannel
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.codes_source import CodesSource
from ascendfx.runtime.checkpoint.open_checkpoint import Checkpoint, open_checkpoint
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint
from tests.quant.checkpoint.plans import W4A8_DYNAMIC, W8A8_DYNAMIC


def planned(source: Checkpoint, name: str) -> PlannedTensor:
    shape, dtype = source.shape(name), source.dtype(name)
    if "_proj" not in name or "kv_b" in name:
        return PlannedTensor(name, shape, dtype, None, lambda: source.weight(name))

    scheme = W4A8_DYNAMIC if ".experts." in name else W8A8_DYNAMIC

    def make() -> SavedWeight:
        spec = WeightSpec(scheme.format, scheme.granularity)
        return SavedWeight(MinMax().quantize(source.load(name), spec).tensor, "dynamic")

    return PlannedTensor(name, shape, dtype, scheme, make)


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
    """Each projection is one of codes, as ``quant="w4a8"`` makes them, and they are the stored."""
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
    np.testing.assert_array_equal(unpack_pairs(codes[2]), np.concatenate(rows))
    assert source.shape(f"{experts}.gate_up_proj#codes") == codes.shape
    assert source.shape(f"{experts}.gate_up_proj#scale") == scale.shape == codes.shape[:2]
    types = [source.dtype(f"{experts}.gate_up_proj#{part}") for part in ("codes", "scale")]
    assert types == [DType.I4X2, DType.F32]
    assert source.dtype(f"{key}#codes") is DType.I8
    keys = set(source.keys())
    assert not any("kv_b_proj" in each for each in keys if "#" in each)
    lines = delivered_lines(source.keys(), source.dtype)
    made = InsertQuantization(lines).run(found.program).program
    check_quantized(made, lines)
    pairs = {type(n.op) for graph in made.graphs for n in graph.nodes if _of_pairs(n.op)}
    assert pairs == {GroupedLinear}
    wanted = {each for graph in made.graphs for node in graph.nodes for each in _keys(node.op)}
    assert wanted <= keys
    assert {each for each in keys if "#" in each and "layers.1." in each} <= wanted
    with pytest.raises(GraphError, match="there is no tensor"):
        source.load(f"{key}#zero")


def _of_pairs(op: object) -> bool:
    return isinstance(op, Linear | GroupedLinear) and op.pairs


def _keys(op: object) -> tuple[str, ...]:
    return tuple(key for _, key in op.keys) if isinstance(op, Call) else ()


@pytest.mark.parametrize(
    ("bits", "columns", "dtype"),
    [((4, 4), 6, DType.I4X2), ((4, 8), 6, DType.I8), ((4, 4), 5, DType.I8), ((8, 8), 6, DType.I8)],
)
def test_codes_lie_in_pairs_if_all_parts_have_four_bits_and_rows_are_even(
    bits: tuple[int, int], columns: int, dtype: DType
) -> None:
    codes = np.arange(2 * columns, dtype=np.int8).reshape(2, columns) - 7

    def part(wide: int) -> Any:
        affine = Affine(np.ones((2, 1), np.float32), None, PerChannel())
        saved = SavedWeight(QuantizedTensor(codes, affine, Integer(wide)), "dynamic")
        place = WeightPlace(codes.shape, None, lambda: saved, by_token=True, bits=wide)
        return SimpleNamespace(place=place)

    source = CodesSource({"w": ((part(bits[0]), part(bits[1])),)}, {"w": (4, columns)})
    loaded = source.load("w#codes")
    assert source.dtype("w#codes") is dtype
    assert loaded.shape == source.shape("w#codes")
    assert loaded.dtype == dtype.numpy
    found = unpack_pairs(loaded) if dtype is DType.I4X2 else loaded
    np.testing.assert_array_equal(found, np.concatenate([codes, codes]))
    assert source.shape("w#scale") == (4,)
