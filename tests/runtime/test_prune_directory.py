"""``ascendfx prune`` on the bundled model: what is written is what stays."""

import json
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result

from ascendfx import bundled_model
from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.policy.recipe import Calibration, TextShare
from ascendfx.runtime.checkpoint.open_checkpoint import open_checkpoint
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.quantize import prune_directory as module
from ascendfx.runtime.quantize.prune_directory import prune_directory
from tests.quant.insertion.bundled_program import raised_program, weights

TEXTS = bundled_model() / "texts" / "calibration.jsonl"
UP = "{}.experts.{}.up_proj.weight"


def command(*words: str) -> Result:
    return CliRunner().invoke(cli, ["prune", str(bundled_model()), *words])


def test_experts_that_stay_are_those_of_the_model(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "program_over_texts", lambda *_: (raised_program(), weights()))
    texts = Calibration((TextShare(TEXTS),), tokens=256, length=64)
    made = prune_directory(bundled_model(), 8, tmp_path / "out", calibration=texts)
    old, new = open_checkpoint(bundled_model()), open_checkpoint(tmp_path / "out")
    assert [each.layer for each in made.layers] == [f"model.layers.{n}.mlp" for n in range(1, 6)]
    for each in made.layers:
        groups = [expert // 4 for expert in each.kept]
        assert groups == [0, 0, 1, 1, 2, 2, 3, 3]
        for place, expert in enumerate(each.kept):
            np.testing.assert_array_equal(
                new.load(UP.format(each.layer, place)), old.load(UP.format(each.layer, expert))
            )
        router = f"{each.layer}.gate.weight"
        np.testing.assert_array_equal(new.load(router), old.load(router)[list(each.kept)])
    judged = [each for each in made.layers if each.share is not None]
    assert len(judged) == 4  # no text reaches the draft layer
    assert all(0.5 < (each.share or 0) < 1 for each in judged)  # better than by chance
    removed = 5 * 8 * 3
    assert len(new.keys()) == len(old.keys()) - removed
    config = json.loads((tmp_path / "out" / "config.json").read_text(encoding="utf-8"))
    assert config["n_routed_experts"] == 8
    assert (tmp_path / "out" / "tokenizer.json").is_file()


def test_without_texts_weights_decide(tmp_path: Path) -> None:
    ended = command("--keep", "12", "--by", "norm", "-o", str(tmp_path / "out"))
    assert ended.exit_code == 0, ended.output
    assert "model.layers.1.mlp: " in ended.stderr
    assert "stay, judged by norms\n" in ended.stderr  # texts were not asked for
    assert "bytes" in ended.stdout


@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (["--keep", "6", "--by", "norm"], "bad-pruning", "keep one of 8, 12, 16"),
        (["--keep", "8"], "texts-missing", "judge by `norm`"),
    ],
)
def test_what_cannot_be_pruned_is_told(
    words: list[str], code: str, told: str, tmp_path: Path
) -> None:
    ended = command(*words, "-o", str(tmp_path / "out"))
    assert isinstance(ended.exception, GraphError)
    assert ended.exception.code == code
    assert told in str(ended.exception)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("idle", [("--texts", str(TEXTS)), ("--tokens", "64")])
def test_texts_beside_norms_are_wrong_use(idle: tuple[str, str], tmp_path: Path) -> None:
    ended = command("--keep", "8", "--by", "norm", *idle, "-o", str(tmp_path / "out"))
    assert ended.exit_code == 2
    assert f"{idle[0]} changes nothing with --by norm, which looks at weights alone" in ended.stderr
