"""What is written as compressed-tensors is what that library decompresses, number by number."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from compressed_tensors.compressors import BaseCompressor
from compressed_tensors.quantization import QuantizationConfig, QuantizationScheme
from compressed_tensors.utils.match import is_match
from safetensors import safe_open

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.compressed_form import CompressedForm
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor, Scheme
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight
from ascendfx.quant_passes.formats.float8 import E4M3FN, E5M2
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.formats.normal_float4 import NF4
from ascendfx.quant_passes.scaling.granularity import (
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
)
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint
from tests.quant.checkpoint import plans
from tests.quant.checkpoint.plans import INPUTS, deepseek, planned

OPTIONS = WriteOptions({"torch_dtype": "bfloat16"}, shard_bytes=9000)
SCHEMES = [
    plans.W8A8_DYNAMIC,
    plans.W8A8_STATIC,
    plans.W4A8_DYNAMIC,
    *(Scheme(Integer(bits), PerChannel()) for bits in (2, 3, 4, 8)),
    *(Scheme(Integer(bits), PerGroup(16), symmetric=False) for bits in (2, 3, 4, 8)),
    Scheme(Integer(4), PerChannel(), symmetric=False),
    Scheme(Integer(4), PerTensor()),
    Scheme(E4M3FN(), PerChannel(), "dynamic"),
    Scheme(E4M3FN(), PerTensor()),
    plans.FP8_BLOCKS,
    Scheme(E4M3FN(), PerBlock(16, 16)),
]


def library_reads(folder: Path) -> dict[str, torch.Tensor]:
    """Decompress all weights with compressed-tensors, finding schemes by its matching."""
    content = json.loads((folder / "config.json").read_text())["quantization_config"]
    config = QuantizationConfig(**{k: v for k, v in content.items() if k != "version"})
    tensors: dict[str, torch.Tensor] = {}
    for file in folder.glob("*.safetensors"):
        with safe_open(file, framework="pt") as opened:
            tensors |= {name: opened.get_tensor(name) for name in opened.keys()}  # noqa: SIM118
    found: dict[str, torch.Tensor] = {}
    linear = torch.nn.Linear(1, 1)
    for module in {name.rpartition(".")[0] for name in tensors}:
        own = {
            n.rpartition(".")[2]: t for n, t in tensors.items() if n.rpartition(".")[0] == module
        }
        groups = [g for g in config.config_groups.values() if is_match(module, linear, g.targets)]
        ignored = is_match(module, linear, config.ignore)
        if "weight_scale" not in own:
            assert not groups
            found |= {f"{module}.{name}": tensor for name, tensor in own.items()}
            assert ignored or "embed" in module or own[next(iter(own))].dim() < 2
            continue
        [scheme] = groups
        assert not ignored
        assert isinstance(scheme, QuantizationScheme)
        compressor = BaseCompressor.get_value_from_registry(scheme.format or config.format)
        found[f"{module}.weight"] = compressor.decompress(own, scheme)["weight"]
    return found


def bits(values: Any) -> np.ndarray:
    """Return numbers as bits, so that equal means equal."""
    array = (
        values.contiguous().view(torch.uint8).numpy()
        if isinstance(values, torch.Tensor)
        else (np.ascontiguousarray(values).view(np.uint8))
    )
    return array.reshape(-1)


@pytest.mark.parametrize(
    ("scheme", "scales"),
    [(scheme, scales) for scheme in SCHEMES for scales in (DType.F32, DType.BF16)]
    + [(SCHEMES[0], DType.F16)],
)
def test_the_library_decompresses_our_numbers(
    scheme: Scheme, scales: DType, tmp_path: Path
) -> None:
    scheme = replace(scheme, scales=scales)
    plan = [planned("a.weight", (37, 48), scheme), planned("b.weight", (37, 48))]
    write_checkpoint(tmp_path / "out", plan, CompressedForm(), OPTIONS)
    theirs = library_reads(tmp_path / "out")
    ours = open_checkpoint(tmp_path / "out", delivered=scales)
    weight = plan[0].make().weight
    assert isinstance(weight, QuantizedTensor)
    np.testing.assert_array_equal(bits(theirs["a.weight"]), bits(weight.decode(scales)))
    np.testing.assert_array_equal(bits(ours.load("a.weight")), bits(weight.decode(scales)))
    np.testing.assert_array_equal(bits(theirs["b.weight"]), bits(ours.load("b.weight")))


def test_a_model_of_several_schemes(tmp_path: Path) -> None:
    plan = deepseek()
    write_checkpoint(tmp_path / "out", plan, CompressedForm(), OPTIONS)
    theirs, ours = library_reads(tmp_path / "out"), open_checkpoint(tmp_path / "out")
    assert ours.form == "compressed-tensors"
    assert theirs.keys() == set(ours.keys()) == {tensor.name for tensor in plan}
    for tensor in plan:
        weight = tensor.make().weight
        expected = weight if isinstance(weight, np.ndarray) else weight.decode()
        np.testing.assert_array_equal(bits(theirs[tensor.name]), bits(expected))
        np.testing.assert_array_equal(bits(ours.load(tensor.name)), bits(expected))
    config = json.loads((tmp_path / "out" / "config.json").read_text())["quantization_config"]
    assert sum(len(group["targets"]) for group in config["config_groups"].values()) == 15


@pytest.mark.parametrize("scheme", SCHEMES, ids=str)
def test_what_is_read_writes_the_same_bytes_again(scheme: Scheme, tmp_path: Path) -> None:
    plan = [planned("a.weight", (37, 48), scheme)]
    write_checkpoint(tmp_path / "out", plan, CompressedForm(), OPTIONS)
    found = open_checkpoint(tmp_path / "out")
    again = [replace(plan[0], make=lambda: found.weight("a.weight"))]
    write_checkpoint(tmp_path / "again", again, CompressedForm(), OPTIONS)
    for file in (tmp_path / "out").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / file.name).read_bytes()


def test_inputs_are_read_back(tmp_path: Path) -> None:
    plan = [
        planned("a.weight", (4, 16), plans.W8A8_STATIC),
        planned("b.weight", (4, 16), plans.W8A8_DYNAMIC),
        planned("c.weight", (4, 16), plans.W8A16),
    ]
    write_checkpoint(tmp_path / "out", plan, CompressedForm(), OPTIONS)
    found = open_checkpoint(tmp_path / "out")
    assert [found.weight(f"{name}.weight").activation for name in "abc"] == [
        INPUTS,
        "dynamic",
        None,
    ]


def test_a_model_without_codes_has_no_quantization(tmp_path: Path) -> None:
    write_checkpoint(tmp_path / "out", [planned("a.weight", (4, 16))], CompressedForm(), OPTIONS)
    assert "quantization_config" not in json.loads((tmp_path / "out" / "config.json").read_text())


@pytest.mark.parametrize(
    ("name", "shape", "scheme"),
    [
        ("a.weight", (4, 32), Scheme(Integer(4, signed=False), PerChannel())),
        ("a.weight", (4, 32), Scheme(Integer(5), PerChannel())),
        ("a.weight", (4, 32), Scheme(Integer(3), PerChannel(), "dynamic")),
        ("a.weight", (4, 32), Scheme(E5M2(), PerChannel())),
        ("a.weight", (4, 32), Scheme(NF4, PerChannel())),
        ("a.weight", (4, 32), Scheme(E4M3FN(), PerChannel(), "static")),
        ("a.weight", (4, 32), Scheme(E4M3FN(), PerGroup(16))),
        ("a.weight", (4, 32), Scheme(Integer(4), PerBlock(2, 16))),
        ("a.weight", (4, 32), Scheme(Integer(4), PerToken())),
        ("a.weight", (4, 32), Scheme(Integer(8), PerChannel(), "dynamic", symmetric=False)),
        ("a.weight", (4, 32), Scheme(Integer(4), PerTensor(), symmetric=False)),
        ("a.experts.up_proj", (2, 4, 32), plans.W8A8_DYNAMIC),
    ],
)
def test_what_has_no_place_is_refused(name: str, shape: tuple[int, ...], scheme: Scheme) -> None:
    with pytest.raises(GraphError, match="not-storable"):
        CompressedForm().parts(PlannedTensor(name, shape, DType.BF16, scheme, pytest.fail))


def test_zero_points_that_are_no_codes_are_refused() -> None:
    tensor = planned("a.weight", (4, 32), Scheme(Integer(4), PerChannel(), symmetric=False))
    weight = tensor.make().weight
    assert isinstance(weight, QuantizedTensor)
    zero = np.full((4, 1), 0.5, np.float32)
    other = replace(weight, affine=replace(weight.affine, zero=zero))
    with pytest.raises(GraphError, match=r"bad-scale.*no codes of int4"):
        CompressedForm().encode(tensor, SavedWeight(other))


def _edited(folder: Path, edit: dict[str, Any]) -> None:
    config = json.loads((folder / "config.json").read_text())
    group = config["quantization_config"]["config_groups"]["group_0"]
    for key, value in edit.items():
        (group if key in group else group["weights"])[key] = value
    (folder / "config.json").write_text(json.dumps(config))


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        ({"num_bits": 9}, r"bad-description.*9 bits of type 'int'"),
        ({"type": "complex"}, r"bad-description.*'complex'"),
        ({"strategy": "diagonal"}, r"bad-description.*'diagonal'"),
        ({"strategy": "group"}, r"bad-description.*'group'"),
        ({"targets": ["b"]}, r"bad-description.*no group for the codes of `a`"),
        ({"weights": None}, r"bad-description.*without `weights` for `a`"),
        ({"num_bits": 3}, r"wrong-shape.*`a.weight_packed`"),
        ({"strategy": "group", "group_size": 16}, r"wrong-shape.*`a.weight_scale`"),
    ],
)
def test_configurations_that_do_not_fit_are_refused(
    edit: dict[str, Any], error: str, tmp_path: Path
) -> None:
    plan = [planned("a.weight", (4, 32), Scheme(Integer(4), PerChannel()))]
    write_checkpoint(tmp_path / "out", plan, CompressedForm(), OPTIONS)
    _edited(tmp_path / "out", edit)
    with pytest.raises(GraphError, match=error):
        open_checkpoint(tmp_path / "out")


def test_a_group_of_all_linear_layers_is_read(tmp_path: Path) -> None:
    plan = [planned("a.weight", (4, 32), Scheme(Integer(4), PerChannel()))]
    write_checkpoint(tmp_path / "out", plan, CompressedForm(), OPTIONS)
    _edited(tmp_path / "out", {"targets": ["Linear"]})
    assert open_checkpoint(tmp_path / "out").is_quantized("a.weight")
