"""Hugging Face directories: numbers of every format, and FP8 blocks as they are."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from safetensors.numpy import load_file

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.hf_form import HfForm
from ascendfx.quant_passes.checkpoint.planned_tensor import Scheme
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.normal_float4 import NF4
from ascendfx.quant_passes.scaling.granularity import PerBlock, PerChannel
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint
from tests.quant.checkpoint import plans
from tests.quant.checkpoint.plans import planned


def test_codes_become_the_numbers_that_they_stand_for(tmp_path: Path) -> None:
    plan = [planned("a.weight", (6, 32), plans.W4A8_DYNAMIC), planned("b.weight", (3,))]
    write_checkpoint(tmp_path / "out", plan, HfForm(), WriteOptions({"torch_dtype": "bfloat16"}))
    found = load_file(tmp_path / "out" / "model-00001-of-00001.safetensors")
    weight = plan[0].make().weight
    assert isinstance(weight, QuantizedTensor)
    expected = weight.decode(DType.BF16)
    np.testing.assert_array_equal(found["a.weight"].view(np.int16), expected.view(np.int16))
    assert set(found) == {"a.weight", "b.weight"}


def test_blocks_of_float8_stay_codes(tmp_path: Path) -> None:
    plan = [planned("a.weight", (40, 24), plans.FP8_BLOCKS), planned("b.weight", (3,))]
    write_checkpoint(tmp_path / "out", plan, HfForm(), WriteOptions({"torch_dtype": "bfloat16"}))
    config = json.loads((tmp_path / "out" / "config.json").read_text())
    assert config["quantization_config"]["weight_block_size"] == [16, 16]
    weight = plan[0].make().weight
    found = open_checkpoint(tmp_path / "out").weight("a.weight").weight
    assert isinstance(found, QuantizedTensor)
    assert isinstance(weight, QuantizedTensor)
    np.testing.assert_array_equal(found.codes, weight.codes)
    np.testing.assert_array_equal(found.affine.scale, weight.affine.scale)


def test_blocks_have_one_size() -> None:
    other = replace(plans.FP8_BLOCKS, granularity=PerBlock(8, 8))
    plan = [planned("a.weight", (40, 24), plans.FP8_BLOCKS), planned("b.weight", (8, 8), other)]
    with pytest.raises(GraphError, match=r"not-storable.*`b.weight`.*another size"):
        HfForm().check(plan)


@pytest.mark.parametrize("scheme", [Scheme(NF4, PerChannel()), Scheme(E4M3FN(), PerChannel())])
def test_formats_that_no_loader_knows_can_be_tried(scheme: Scheme, tmp_path: Path) -> None:
    plan = [planned("a.weight", (6, 32), scheme)]
    write_checkpoint(tmp_path / "out", plan, HfForm(), WriteOptions({}))
    assert open_checkpoint(tmp_path / "out").dtype("a.weight") == DType.BF16
