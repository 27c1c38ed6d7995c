"""``quant="w8a8"`` and ``"w4a8"`` from a directory to text: plans, drafts, passes, packages."""

from pathlib import Path

import pytest

import ascendfx
from ascendfx.ir.ops import GroupedLinear, Linear
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.dumps.json_file import read_json_file
from ascendfx.runtime.dumps.read_dump import read_dump
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.start_engine import start_engine
from tests.checkpoint.draft_checkpoint import write_checkpoint

PROMPTS = [[1, 2, 3], [5]]


@pytest.fixture(scope="module")
def checkpoint(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("quantized") / "model"
    directory.mkdir()
    write_checkpoint(
        directory, drafts=1, qk_nope_head_dim=8, qk_rope_head_dim=8, v_head_dim=8, kv_lora_rank=16
    )
    return directory


def compiled(checkpoint: Path, drafts: int, quant: str = "w8a8", **options: object) -> Engine:
    return ascendfx.compile(
        checkpoint,
        quant=quant,
        dtype="float32",
        max_batch=2,
        max_context=64,
        prefill_chunk=4,
        draft_tokens=drafts,
        **options,  # pyright: ignore[reportArgumentType]
    )


def texts(engine: Engine) -> list[tuple[int, ...]]:
    return [each.token_ids for each in engine.generate(PROMPTS, max_new_tokens=12)]


def products_of_codes(program: Program) -> dict[str, int]:
    """Return how many projections of each function multiply codes."""
    found: dict[str, int] = {}
    for graph in program.graphs:
        for node in graph.nodes:
            codes = node.types[0].dtype is DType.I32 and isinstance(node.op, Linear | GroupedLinear)
            found[graph.name] = found.get(graph.name, 0) + codes
    return found


def test_a_directory_is_compiled_to_products_of_codes(checkpoint: Path) -> None:
    limits = Limits(2, 64, 4)
    made = compile_model(checkpoint, quant="w8a8", limits=limits, plans=("decode",))
    counts = products_of_codes(made.steps["decode"])
    # q_a, kv_a, q_b, o; three of a dense layer, or three shared and two of all experts
    assert sorted(counts.values()) == [0, 7, 9]
    assert any(spec.dtype is DType.I8 and spec.layout == "nz" for spec in made.weights)


def products_of_pairs(program: Program) -> list[str]:
    """Return the functions with projections by four-bit codes, by projection."""
    return [
        graph.name
        for graph in program.graphs
        for node in graph.nodes
        if isinstance(node.op, Linear | GroupedLinear) and node.op.pairs
    ]


@pytest.mark.nightly
def test_experts_of_four_bits_are_compiled_to_products_of_digits(checkpoint: Path) -> None:
    limits = Limits(2, 64, 4, None, 1)
    made = compile_model(checkpoint, quant="w4a8", limits=limits, plans=("decode",))
    assert sorted(products_of_codes(made.steps["decode"]).values()) == [0, 7, 9, 9]
    (layer,) = set(products_of_pairs(made.steps["decode"]))  # not the experts of the draft layer
    assert not layer.startswith("draft_")
    pairs = [spec for spec in made.weights if spec.dtype is DType.I4X2]
    assert len(pairs) == 2
    assert {spec.layout for spec in pairs} == {"nz"}


@pytest.mark.nightly
def test_both_plans_and_the_draft_layer_multiply_codes(checkpoint: Path) -> None:
    made = compile_model(checkpoint, quant="w8a8", limits=Limits(2, 64, 4, None, 1))
    for name, step in made.steps.items():
        counts = products_of_codes(step)
        assert counts.pop("main") == 0, name
        drafting = [count for graph, count in counts.items() if graph.startswith("draft_")]
        assert set(counts.values()) == {7, 9}, name
        assert drafting == [9], name
    assert all(len(text) == 12 for text in texts(start_engine(made, "reference")))


@pytest.mark.nightly
def test_drafts_change_no_token_and_every_pass_is_verified(
    checkpoint: Path, tmp_path: Path
) -> None:
    plain = texts(compiled(checkpoint, 0, executor="reference"))
    drafted = compiled(
        checkpoint,
        1,
        executor="reference",
        verify="each-pass",
        verify_length=6,
        dump_dir=tmp_path / "dumps",
    )
    assert texts(drafted) == plain
    lossy: list[str] = []
    for stage in read_dump(tmp_path / "dumps").stages:
        entries = read_json_file(stage.directory / "index.json", "passes")
        for form, entry in zip(stage.passes, entries, strict=True):
            assert entry["broken"] is None
            if form.name == "insert-quantization":
                lossy.append(stage.name)
                assert entry["error"]["max"] > 1e6 * entry["error"]["bound"]
    assert lossy == ["serving", "draft"]


@pytest.mark.nightly
@pytest.mark.parametrize("quant", ["w8a8", "w4a8"])
def test_kernels_write_the_text_of_the_meaning_and_so_does_a_package(
    checkpoint: Path, tmp_path: Path, quant: str
) -> None:
    expected = texts(compiled(checkpoint, 1, quant, executor="reference"))
    engine = compiled(checkpoint, 1, quant)
    assert texts(engine) == expected
    engine.save(tmp_path / "package")
    assert texts(ascendfx.load(tmp_path / "package")) == expected
