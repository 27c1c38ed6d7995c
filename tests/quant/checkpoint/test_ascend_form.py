"""What is written as ascendV1 is what an independent reader and ours find."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_type import DType
from ascendfx.quant_passes.checkpoint.ascend_form import AscendForm
from ascendfx.quant_passes.checkpoint.planned_tensor import PlannedTensor, Scheme
from ascendfx.quant_passes.checkpoint.saved_weight import SavedWeight, StaticInputs
from ascendfx.quant_passes.formats.float8 import E4M3FN
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.granularity import PerChannel, PerGroup, PerTensor
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from ascendfx.runtime.checkpoint.write_checkpoint import WriteOptions, write_checkpoint
from tests.quant.checkpoint import plans
from tests.quant.checkpoint.ascend_reader import AscendDirectory
from tests.quant.checkpoint.plans import INPUTS, deepseek, planned
from tests.quant.reference_vectors import vectors

BF16 = {"torch_dtype": "bfloat16", "quantization_config": {"quant_method": "fp8"}}
NAME = "model.layers.0.mlp.experts.0.{}_proj.weight"


def written(
    folder: Path, plan: list[PlannedTensor], *, bf16: bool = True, anywhere: bool = False
) -> AscendDirectory:
    config = BF16 if bf16 else {"torch_dtype": "float16"}
    form = AscendForm(bf16, int4_elsewhere=anywhere)
    write_checkpoint(folder / "out", plan, form, WriteOptions(config, shard_bytes=8000))
    return AscendDirectory(folder / "out")


def decoded(tensor: PlannedTensor) -> np.ndarray:
    weight = tensor.make().weight
    return weight.astype(np.float32) if isinstance(weight, np.ndarray) else weight.decode()


def test_both_readers_find_every_weight(tmp_path: Path) -> None:
    plan = deepseek()
    theirs, ours = written(tmp_path, plan), open_checkpoint(tmp_path / "out")
    assert set(ours.keys()) == {tensor.name for tensor in plan}
    assert len(set(theirs.files.values())) > 2
    assert theirs.total == sum(file.stat().st_size for file in set(theirs.files.values())) - sum(
        8 + int.from_bytes(file.read_bytes()[:8], "little") for file in set(theirs.files.values())
    )
    for tensor in plan:
        np.testing.assert_array_equal(theirs.dequantized(tensor.name), decoded(tensor))
        np.testing.assert_array_equal(ours.load(tensor.name).astype(np.float32), decoded(tensor))


def test_what_is_read_writes_the_same_bytes_again(tmp_path: Path) -> None:
    plan = deepseek()
    written(tmp_path, plan)
    ours = open_checkpoint(tmp_path / "out")
    again = [
        PlannedTensor(each.name, each.shape, each.dtype, each.scheme, ours.places[each.name].load)
        for each in plan
    ]
    (tmp_path / "again").mkdir()
    written(tmp_path / "again", again)
    for file in (tmp_path / "out").iterdir():
        assert file.read_bytes() == (tmp_path / "again" / "out" / file.name).read_bytes()


@pytest.mark.parametrize("scheme", [plans.W8A8_DYNAMIC, plans.W4A8_DYNAMIC])
@pytest.mark.parametrize("part", ["gate", "up", "down"])
def test_the_kernel_with_dynamic_inputs(scheme: Scheme, part: str, tmp_path: Path) -> None:
    """W4A8 splits inputs into nibbles; the stored bias makes up for it, to the last bits of f32."""
    name = NAME.format(part)
    tensor = planned(name, (32, 48), scheme)
    directory = written(tmp_path, [tensor])
    x = np.random.default_rng(1).standard_normal((5, 48))
    scale = np.abs(x).max(1, keepdims=True) / 127
    weight = decoded(tensor).astype(np.float64)
    expected = np.rint(x / scale) * scale @ weight.T
    # scale_bias is rounded to float32, in 16 parts for `down`: 8 sum|w| 2^-24 per input scale;
    # 2^-24 more for the rounding of `decoded`, of products below 127 sum|w|.
    bound = 135 * np.abs(weight).sum(1) * scale * 2.0**-24
    found = directory.product(name, x)
    assert (np.abs(found - expected) <= bound).all()
    if scheme is plans.W4A8_DYNAMIC:
        assert directory.tensor(NAME.format(part).replace("weight", "scale_bias")).any()


@pytest.mark.parametrize("bf16", [True, False])
@pytest.mark.parametrize("bias", [None, np.linspace(-3, 4, 32).astype(np.float32)])
def test_the_kernel_with_static_inputs(
    bf16: bool,  # noqa: FBT001
    bias: np.ndarray | None,
    tmp_path: Path,
) -> None:
    name = "model.layers.0.self_attn.o_proj.weight"
    directory = written(
        tmp_path, [planned(name, (32, 48), plans.W8A8_STATIC, bias=bias)], bf16=bf16
    )
    x = np.random.default_rng(1).standard_normal((5, 48))
    codes = np.clip(np.rint(x / np.float32(INPUTS.scale)) + INPUTS.zero, -128, 127) - INPUTS.zero
    weight = decoded(planned(name, (32, 48), plans.W8A8_STATIC)).astype(np.float64)
    shift = 0 if bias is None else bias
    expected = codes * float(np.float32(INPUTS.scale)) @ weight.T + shift
    unit = np.float32(INPUTS.scale) * np.abs(weight).max(1) / 127
    # Half a unit of the sum is lost when the bias is rounded; products of float32 scales the rest.
    bound = (0 if bias is None else 0.51) * unit + 2.0**-22 * (np.abs(expected) + 255 * 48 * unit)
    assert (np.abs(directory.product(name, x) - expected) <= bound).all()


def test_static_inputs_are_read_back(tmp_path: Path) -> None:
    bias = np.linspace(-3, 4, 32).astype(np.float32)
    name = "model.layers.0.self_attn.o_proj.weight"
    written(tmp_path, [planned(name, (32, 48), plans.W8A8_STATIC, bias=bias)])
    found = open_checkpoint(tmp_path / "out").weight(name)
    assert found.activation == INPUTS
    assert found.bias is not None
    np.testing.assert_allclose(found.bias, bias, atol=0.03 * 4 / 127)
    assert open_checkpoint(tmp_path / "out").is_quantized(name)


def test_scales_of_models_in_float16_are_bits_in_int64(tmp_path: Path) -> None:
    """1.0 is 1065353216 and 2^-20 is 897581056, as msModelSlim writes them."""
    codes = np.full((2, 16), 127, np.int8)
    name = "model.layers.0.self_attn.o_proj.weight"
    tensor = planned(name, (2, 16), plans.W8A8_STATIC)
    made = tensor.make().weight
    assert isinstance(made, QuantizedTensor)
    scale = np.array([[1.0], [2.0**-20]], np.float32)
    affine = type(made.affine)(scale, None, PerChannel(), stored=DType.F32)
    saved = SavedWeight(QuantizedTensor(codes, affine, Integer(8)), StaticInputs(1.0))
    found = AscendForm(bf16=False).encode(tensor, saved)
    assert found[name.replace("weight", "deq_scale")].tolist() == [1065353216, 897581056]


def test_the_example_of_packed_rows() -> None:
    data = vectors("packing")
    name = NAME.format("gate")
    tensor = planned(name, (4, 2), plans.W4A8_DYNAMIC)
    affine = (
        type(made.affine)(np.ones((4, 1)), None, PerChannel())
        if (isinstance(made := tensor.make().weight, QuantizedTensor))
        else None
    )
    assert affine is not None
    codes = QuantizedTensor(data["ms_small_codes"], affine, Integer(4))
    packed = AscendForm().encode(tensor, SavedWeight(codes, "dynamic"))[name]
    np.testing.assert_array_equal(packed, data["ms_small_packed"])


def test_the_description_has_every_tensor_and_what_loaders_ask_for(tmp_path: Path) -> None:
    directory = written(
        tmp_path,
        [*deepseek(), planned("model.layers.0.self_attn.fa_k.scale", (1, 1), dtype=DType.F32)],
    )
    types = directory.types
    assert types["model_quant_type"] == "W4A8_DYNAMIC"
    assert types["fa_quant_type"] == "FAKQuant"
    assert types["model.layers.0.self_attn.fa_k.scale"] == "FAQuant"
    assert types["model.layers.2.embed_tokens.weight"] == "FLOAT"
    assert types["model.layers.1.mlp.experts.0.up_proj.scale_bias"] == "W4A8_DYNAMIC"
    assert types["model.layers.2.mlp.experts.0.up_proj.weight"] == "W8A8_DYNAMIC"
    assert types["model.layers.0.self_attn.o_proj.quant_bias"] == "W8A8"


def test_eight_bits_without_quantized_inputs(tmp_path: Path) -> None:
    plan = [planned("a.weight", (8, 32), plans.W8A16)]
    written(tmp_path, plan)
    assert open_checkpoint(tmp_path / "out").weight("a.weight").activation is None


def test_scales_that_the_loader_will_not_round(tmp_path: Path) -> None:
    scheme = replace(plans.W8A8_DYNAMIC, scales=DType.BF16)
    plan = [planned("a.weight", (8, 32), scheme)]
    scale = written(tmp_path, plan).tensor("a.weight_scale")
    assert scale.dtype == np.float32
    np.testing.assert_array_equal(scale.astype(DType.BF16.numpy).astype(np.float32), scale)


def test_groups_of_eight_bits_are_read_back(tmp_path: Path) -> None:
    plan = [planned("a.weight", (8, 32), plans.W8A16_GROUPS)]
    write_checkpoint(tmp_path / "out", plan, AscendForm(), WriteOptions(BF16))
    types = json.loads((tmp_path / "out" / "quant_model_description.json").read_text())
    assert types["group_size"] == 16
    found = open_checkpoint(tmp_path / "out").load("a.weight")
    np.testing.assert_array_equal(found, decoded(plan[0]))


@pytest.mark.parametrize(
    ("name", "shape", "scheme", "why"),
    [
        (NAME.format("up"), (8, 64), Scheme(Integer(4), PerGroup(32), "dynamic"), "per channel"),
        (NAME.format("up"), (7, 64), plans.W4A8_DYNAMIC, "rows come in pairs"),
        (NAME.format("down"), (8, 60), plans.W4A8_DYNAMIC, "in 16 parts"),
        ("a.q_a_proj.weight", (8, 64), plans.W4A8_DYNAMIC, "routed experts only"),
        ("a.weight", (8, 64), Scheme(Integer(4), PerChannel()), "W8A16"),
        ("a.weight", (8, 64), Scheme(Integer(4), PerChannel(), "static"), "W8A16"),
        ("a.weight", (8, 64), Scheme(Integer(3), PerChannel(), "dynamic"), "int8 or int4"),
        ("a.weight", (8, 64), Scheme(E4M3FN(), PerChannel(), "dynamic"), "int8 or int4"),
        ("a.weight", (8, 64), Scheme(Integer(8), PerTensor(), "dynamic"), "per channel"),
        ("a.weight", (8, 64), Scheme(Integer(8), PerChannel(), "dynamic", symmetric=False), "zero"),
        ("a.experts.up_proj", (2, 8, 64), plans.W8A8_DYNAMIC, "singly"),
    ],
)
def test_what_the_loader_would_refuse_is_refused_when_planned(
    name: str, shape: tuple[int, ...], scheme: Scheme, why: str, tmp_path: Path
) -> None:
    plan = [PlannedTensor(name, shape, DType.BF16, scheme, pytest.fail)]
    with pytest.raises(GraphError, match="not-storable") as caught:
        write_checkpoint(tmp_path / "out", plan, AscendForm(), WriteOptions(BF16))
    assert why in str(caught.value)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.mlp.gate_proj.weight", "a.mlp.up_proj.weight"),
        ("a.self_attn.q_a_proj.weight", "a.self_attn.kv_a_proj_with_mqa.weight"),
        ("a.mlp.experts.0.gate_proj.weight", "a.mlp.experts.1.down_proj.weight"),
        ("a.mlp.shared_experts.up_proj.weight", "a.mlp.shared_experts.gate_proj.weight"),
    ],
)
def test_weights_that_are_loaded_as_one_have_one_type(one: str, other: str) -> None:
    plan = [planned(one, (8, 32), plans.W8A8_DYNAMIC), planned(other, (8, 32))]
    with pytest.raises(GraphError, match=f"not-storable.*`{one}` is W8A8_DYNAMIC and `{other}`"):
        AscendForm().check(plan)
    AscendForm().check([plan[0], planned(other.replace("a.", "b.", 1), (8, 32))])
    AscendForm().check([plan[0], planned(other, (8, 32), plans.W8A8_DYNAMIC)])


def test_another_weight_than_planned_is_refused(tmp_path: Path) -> None:
    made = planned("a.weight", (8, 32), plans.W8A16).make
    tensor = PlannedTensor("a.weight", (8, 32), DType.BF16, plans.W8A8_DYNAMIC, made)
    with pytest.raises(GraphError, match=r"not-as-planned.*inputs None, not dynamic"):
        write_checkpoint(tmp_path / "out", [tensor], AscendForm(), WriteOptions(BF16))


def test_a_bias_beyond_int32_is_refused() -> None:
    bias = np.full(8, 3e9, np.float32)
    tensor = planned("a.weight", (8, 32), plans.W8A8_STATIC, bias=bias)
    with pytest.raises(GraphError, match=r"bad-scale.*row 0"):
        AscendForm().encode(tensor, tensor.make())


def _edited(folder: Path, edit: dict[str, object]) -> None:
    file = folder / "out" / "quant_model_description.json"
    types = json.loads(file.read_text()) | edit
    file.write_text(json.dumps({key: each for key, each in types.items() if each is not None}))


@pytest.mark.parametrize(
    ("edit", "error"),
    [
        ({"lm_head.weight": None}, r"bad-description.*nothing of tensor `lm_head.weight`"),
        ({"lm_head.weight": "W2A2"}, r"bad-description.*calls 'W2A2' tensor `lm_head.weight`"),
        ({"b.weight": "FLOAT"}, r"missing-tensor.*`b.weight`"),
        ({"version": None}, r"bad-description.*version None"),
        ({"lm_head.weight": "W8A8"}, r"tensor-format.*`lm_head.weight`"),
        (
            {"model.layers.0.mlp.up_proj.weight": "W8A8"},
            r"missing-tensor.*`model.layers.0.mlp.up_proj.input_scale`",
        ),
        (
            {"model.layers.0.mlp.up_proj.weight": "W4A8_DYNAMIC"},
            r"wrong-shape.*`model.layers.0.mlp.up_proj.weight_scale`",
        ),
    ],
)
def test_descriptions_that_do_not_fit_are_refused(
    edit: dict[str, object], error: str, tmp_path: Path
) -> None:
    written(tmp_path, deepseek())
    _edited(tmp_path, edit)
    with pytest.raises(GraphError, match=error):
        open_checkpoint(tmp_path / "out")
