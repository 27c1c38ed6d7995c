"""A tiny checkpoint and a package of it, to be damaged, and the command line in process."""

import json
import shutil
import sys
from pathlib import Path

import pytest
from safetensors.torch import save_file
from transformers import DeepseekV3Config

import ascendfx
from ascendfx.runtime.cli.main import main
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.package.save_package import save_package
from tests.bad_input.ended import LIMITS, WEIGHTS, Command, Ended
from tests.models.random_checkpoint import random_model


@pytest.fixture
def command(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Command:
    """Return a function that runs ``ascendfx`` ; anything but an exit raises."""

    def run(*arguments: object) -> Ended:
        monkeypatch.setattr(sys, "argv", ["ascendfx", *map(str, arguments)])
        with pytest.raises(SystemExit) as ended:
            main()
        captured = capsys.readouterr()
        return Ended(int(ended.value.code or 0), captured.out, captured.err)

    return run


@pytest.fixture(scope="session")
def original(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a checkpoint directory that nobody may change."""
    folder = tmp_path_factory.mktemp("tiny")
    config = DeepseekV3Config(
        hidden_size=16,
        intermediate_size=16,
        moe_intermediate_size=8,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=2,
        vocab_size=40,
        kv_lora_rank=8,
        q_lora_rank=8,
        qk_nope_head_dim=8,
        qk_rope_head_dim=8,
        v_head_dim=8,
        n_routed_experts=4,
        num_experts_per_tok=2,
        first_k_dense_replace=1,
        n_group=2,
        topk_group=1,
        architectures=["DeepseekV3ForCausalLM"],
        dtype="float32",
    )
    text = json.dumps(config.to_dict(), default=str)
    (folder / "config.json").write_text(text, encoding="utf-8")
    tensors = random_model(config, seed=0).state_dict()
    save_file({name: each.contiguous() for name, each in tensors.items()}, folder / WEIGHTS)
    shutil.copy(ascendfx.bundled_model() / "tokenizer.json", folder)
    return folder


@pytest.fixture
def checkpoint(original: Path, tmp_path: Path) -> Path:
    """Return a copy of the checkpoint that the test may damage."""
    return Path(shutil.copytree(original, tmp_path / "model"))


@pytest.fixture(scope="session")
def traces(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a folder that keeps the trace of the checkpoint: only its files are looked at again.

    Not for tests of a configuration or of torch: they trace.
    """
    return tmp_path_factory.mktemp("traces")


@pytest.fixture(scope="session")
def compiled(original: Path, traces: Path) -> CompiledModel:
    return compile_model(original, limits=LIMITS, trace_folder=traces)


@pytest.fixture(scope="session")
def saved(compiled: CompiledModel, tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("saved") / "pkg"
    save_package(compiled, folder)
    return folder


@pytest.fixture
def package(saved: Path, tmp_path: Path) -> Path:
    """Return a copy of the package that the test may damage."""
    return Path(shutil.copytree(saved, tmp_path / "pkg"))
