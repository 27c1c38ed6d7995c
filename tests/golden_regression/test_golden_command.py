"""`ascendfx golden record` and `check`, and what they say of bad input."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
import torch
from click.testing import CliRunner, Result
from torch import Tensor, nn
from transformers import DeepseekV3Config

import ascendfx
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.golden.check_golden import check_golden, recorded_subject
from ascendfx.runtime.golden.golden_directory import (
    HEADER,
    OUTPUTS,
    Golden,
    GoldenHeader,
    read_golden,
)
from ascendfx.runtime.golden.make_golden import Subject
from ascendfx.runtime.golden.record_golden import record_golden
from ascendfx.runtime.limits import Limits
from tests.golden_regression.conftest import subject
from tests.models.random_checkpoint import random_model


def run(*arguments: object) -> Result:
    return CliRunner().invoke(cli, ["golden", *map(str, arguments)])


def test_record_check_update(tmp_path: Path) -> None:
    golden = tmp_path / "golden"
    sizes = ("--max-batch", 2, "--max-context", 256)
    made = run(
        "record", ascendfx.bundled_model(), "-o", golden, "-p", "The package manager apt", *sizes
    )
    assert made.exit_code == 0, made.output
    assert made.stdout.endswith(" kernels, outputs of 1 text\n")
    same = run("check", golden)
    assert (same.exit_code, same.stdout) == (0, f"{golden}: as recorded\n")
    kernel = next((golden / "dump" / "decode" / "kernels").glob("*.cpp"))
    kernel.write_text("// another\n", encoding="utf-8")
    other = run("check", golden)
    assert other.exit_code == 1
    assert f"kernel: decode/kernels/{kernel.name} differs\n" in other.stdout
    assert "  -// another\n" in other.stdout
    assert kernel.read_text(encoding="utf-8") == "// another\n"
    updated = run("check", golden, "--update")
    assert updated.exit_code == 0
    assert updated.stdout.endswith(f"{golden}: rewritten\n")
    assert "  -// another\n" in updated.stdout
    assert run("check", golden).stdout == f"{golden}: as recorded\n"


def test_the_place_must_be_free(recorded: Path) -> None:
    found = run("record", ascendfx.bundled_model(), "-o", recorded)
    assert isinstance(found.exception, GraphError)
    assert str(found.exception).startswith(f"error[golden-exists]: {recorded} has contents")


def test_texts_need_a_tokenizer(tmp_path: Path) -> None:
    found = run("record", tmp_path, "-o", tmp_path / "golden", "-p", "text")
    assert isinstance(found.exception, GraphError)
    assert found.exception.code == "no-tokenizer"


def edited(**fields: object) -> Callable[[Path], None]:
    def edit(folder: Path) -> None:
        data = json.loads((folder / HEADER).read_text(encoding="utf-8"))
        (folder / HEADER).write_text(json.dumps(data | fields), encoding="utf-8")

    return edit


def removed(name: str) -> Callable[[Path], None]:
    def remove(folder: Path) -> None:
        (folder / name).unlink()

    return remove


def overwritten(name: str, text: str) -> Callable[[Path], None]:
    def write(folder: Path) -> None:
        (folder / name).write_text(text, encoding="utf-8")

    return write


@pytest.mark.parametrize(
    ("damage", "code"),
    [
        (removed(HEADER), "not-a-golden"),
        (overwritten(HEADER, "{"), "damaged-golden"),
        (overwritten(HEADER, "[]"), "damaged-golden"),
        (edited(format=99), "golden-version"),
        (edited(tokens=[[1, 2], [3]]), "damaged-golden"),
        (edited(tokens=[]), "damaged-golden"),
        (edited(weights=None), "damaged-golden"),
        (edited(generated=3), "damaged-golden"),
        (edited(options={}), "damaged-golden"),
        (edited(options={"limits": {"max_batch": 0}}), "bad-limit"),
        (edited(model=None), "golden-of-module"),
        (edited(model="nowhere"), ""),
        (removed(OUTPUTS), "damaged-golden"),
        (overwritten(OUTPUTS, "no tensors"), "damaged-golden"),
        (removed("dump/dump.json"), "not-a-dump"),
        (overwritten("dump/serving/index.json", "["), "damaged-dump"),
        (removed("dump/serving/00-input.ir"), "damaged-golden"),
    ],
)
def test_damaged_directories_are_one_error_each(
    golden_copy: Path, damage: Callable[[Path], None], code: str
) -> None:
    damage(golden_copy)
    with pytest.raises(GraphError) as caught:
        check_golden(golden_copy)
    assert code in {"", caught.value.code}
    assert caught.value.hint


def test_a_program_that_is_missing_is_named(golden_copy: Path) -> None:
    (file,) = (golden_copy / "dump" / "decode").glob("03-*.ir")
    file.unlink()
    with pytest.raises(GraphError, match=rf"error\[damaged-golden\]: .*{file.name}"):
        check_golden(golden_copy, lambda _: subject())


def test_tokens_of_the_emitted_kernels_are_compared(golden_copy: Path) -> None:
    golden = read_golden(golden_copy)
    texts = len(golden.header.tokens)
    edited(new_tokens=2, generated=[[1, 1]] * texts)(golden_copy)
    found = check_golden(golden_copy)
    assert [change.kind for change in found.changes] == ["tokens"] * texts
    assert found.changes[0].what.startswith("text 0: generated token 0 was 1, is ")


SMALL = DeepseekV3Config(
    hidden_size=16,
    intermediate_size=16,
    num_hidden_layers=1,
    num_attention_heads=2,
    num_key_value_heads=2,
    vocab_size=40,
    kv_lora_rank=8,
    q_lora_rank=8,
    qk_nope_head_dim=8,
    qk_rope_head_dim=8,
    v_head_dim=8,
    first_k_dense_replace=1,
)


def test_a_module_is_recorded_without_a_place(tmp_path: Path) -> None:
    record_golden(Subject(random_model(SMALL, seed=0), limits=Limits(2, 256)), tmp_path / "golden")
    with pytest.raises(GraphError, match=r"error\[golden-of-module\]"):
        check_golden(tmp_path / "golden")
    again = Subject(random_model(SMALL, seed=0), limits=Limits(2, 256))
    assert not check_golden(tmp_path / "golden", lambda _: again).lines


class Drafting(nn.Module):
    """Proposes what one projection says of token and hidden state."""

    def __init__(self, width: float) -> None:
        super().__init__()
        self.embed, self.head = nn.Embedding(40, 16), nn.Linear(32, 40, bias=False)
        self.embed.weight.data[:] = width
        self.head.weight.data[:] = torch.arange(32.0) / 32

    def forward(self, ids: Tensor, hidden: Tensor) -> Tensor:
        return self.head(torch.cat([self.embed(ids), hidden], -1))


def test_draft_layers_are_recorded_too(tmp_path: Path) -> None:
    def drafting(width: float = 1.0) -> Subject:
        limits = Limits(2, 256, draft_tokens=2)
        return Subject(random_model(SMALL, seed=0), limits=limits, draft=Drafting(width))

    record_golden(drafting(), tmp_path / "golden")
    assert not check_golden(tmp_path / "golden", lambda _: drafting()).lines
    (said, weight, *_) = check_golden(tmp_path / "golden", lambda _: drafting(2.0)).lines
    assert said.startswith("weights: 1 of ")
    assert weight == "  draft.embed.weight"


def test_recorded_options_are_those_of_the_subject(tmp_path: Path) -> None:
    limits = Limits(2, 256, draft_tree=(2, 1), group_steps=3)
    subject = Subject(tmp_path, limits=limits, draft_chaining="pre-norm")
    header = GoldenHeader(str(tmp_path), subject.options, [[1]], 0, [], {})
    again = recorded_subject(Golden(tmp_path, header, {}))
    assert (again.limits, again.draft_chaining) == (limits, "pre-norm")
