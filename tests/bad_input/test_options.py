"""Options and requests that no plan serves: the message says what is known or allowed.

Prompts on a small engine, with every message: ``tests/runtime/test_engine.py``.
"""

import json
from pathlib import Path

import pytest
from torch import Tensor, nn

import ascendfx
from ascendfx import GraphError
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.start_engine import start_engine
from tests.bad_input.ended import LIMITS, Command


@pytest.mark.parametrize(
    ("options", "code", "words"),
    [
        ({"target": "ascend310"}, "unknown-target", ("`ascend310`", "ascend910b2")),
        ({"dtype": "float16"}, "unknown-dtype", ("`float16`", "float32 or bfloat16")),
        ({"executor": "cuda"}, "unknown-executor", ("`cuda`", "emulator, reference")),
        ({"max_batch": 0}, "bad-limit", ("max_batch", "at least 1", "0")),
        ({"max_context": -5}, "bad-limit", ("max_context", "at least 2", "-5")),
        ({"max_context": 1}, "bad-limit", ("max_context", "at least 2", "1")),
        ({"prefill_chunk": 0}, "bad-limit", ("prefill_chunk", "at least 1", "0")),
        ({"cache_blocks": 0}, "bad-limit", ("cache_blocks", "at least 1", "0")),
        ({"cache_blocks": -1}, "bad-limit", ("cache_blocks", "at least 1", "-1")),
    ],
    ids=lambda value: str(value) if isinstance(value, dict) else "",
)
def test_an_unknown_option_names_the_known_ones_before_any_work(
    options: dict[str, object], code: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    # The directory does not exist: if it were looked at first, the error would be another.
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(tmp_path / "none", **options)  # pyright: ignore[reportArgumentType]
    assert caught.value.code == code
    for word in words:
        assert word in str(caught.value)


@pytest.mark.parametrize("stored", ["float64", "float16"])
def test_a_model_in_a_format_without_kernels_is_refused_before_the_passes(
    checkpoint: Path, stored: str
) -> None:
    config = json.loads((checkpoint / "config.json").read_text(encoding="utf-8"))
    config.pop("torch_dtype", None)
    (checkpoint / "config.json").write_text(json.dumps({**config, "dtype": stored}))
    with pytest.raises(
        GraphError, match=r"error\[unknown-dtype\]: the model computes in f\d\d"
    ) as caught:
        ascendfx.compile(checkpoint)
    assert 'dtype="float32"' in caught.value.hint


def test_the_command_line_names_the_known_targets(
    checkpoint: Path, tmp_path: Path, command: Command
) -> None:
    ended = command("compile", checkpoint, "-o", tmp_path / "pkg", "--target", "ascend310")
    assert ended.code == 2  # wrong usage, as click has it
    assert "no chip is called `ascend310`; did you mean ascend910b? Known: " in ended.error
    assert "ascend910b1" in ended.error
    assert not (tmp_path / "pkg").exists()


def test_the_command_line_names_the_known_formats(
    checkpoint: Path, tmp_path: Path, command: Command
) -> None:
    ended = command("compile", checkpoint, "-o", tmp_path / "pkg", "--dtype", "float16")
    assert ended.code == 2  # wrong usage, as click has it
    assert "'float16' is not one of 'float32', 'bfloat16'" in ended.error


class Branching(nn.Module):
    """Chooses by a value that only the data know."""

    def __init__(self) -> None:
        super().__init__()
        self.embed = nn.Embedding(16, 8)
        self.head = nn.Linear(8, 16)

    def forward(self, ids: Tensor) -> Tensor:
        x = self.embed(ids)
        if x.sum() > 0:
            x = x * 2
        return self.head(x)


def test_control_flow_that_depends_on_data_is_refused_with_its_line() -> None:
    # More of the kind: tests/capture/test_traps.py.
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(Branching())
    assert caught.value.code == "data-dependent"
    lines = Path(__file__).read_text(encoding="utf-8").splitlines()
    line = next(i for i, text in enumerate(lines, start=1) if "if x.sum() > 0:" in text)
    assert f"  --> {__file__}:{line}" in str(caught.value)
    assert caught.value.hint


def test_a_module_that_takes_no_token_ids_is_refused() -> None:
    with pytest.raises(GraphError, match="must have same reduction dim") as caught:
        ascendfx.compile(nn.Linear(8, 8))
    assert caught.value.code == "model-fails"


def test_a_module_without_attention_is_refused() -> None:
    with pytest.raises(GraphError) as caught:
        ascendfx.compile(nn.Sequential(nn.Embedding(16, 8), nn.Linear(8, 16)))
    assert caught.value.code == "no-attention"


@pytest.fixture(scope="module")
def engine(compiled: CompiledModel) -> Engine:
    return start_engine(compiled, "reference")


PROMPTS = [
    ([[]], 1, r"error\[empty-prompt\]: prompt 0 has no tokens"),
    ([[1], [40]], 1, r"error\[token-range\]: prompt 1 holds token id 40.* ids 0\.\.39"),
    ([[1], [-1]], 1, r"error\[token-range\]: prompt 1 holds token id -1"),
    ([[1] * 100], 29, r"error\[context-limit\]: .* 100 tokens, with 29 new ones 129; .* 128"),
]


@pytest.mark.parametrize(("prompts", "tokens", "message"), PROMPTS)
def test_bad_prompts_are_refused_and_the_engine_goes_on(
    engine: Engine, prompts: list[list[int]], tokens: int, message: str
) -> None:
    with pytest.raises(GraphError, match=message):
        engine.generate(prompts, max_new_tokens=tokens)
    good = engine.generate([[1, 2, 3]] * (LIMITS.max_batch + 1), max_new_tokens=2)
    assert len({each.token_ids for each in good}) == 1


def test_text_that_is_no_token_of_the_model_is_refused(engine: Engine) -> None:
    # The tokenizer knows 4096 ids, the model 40.
    with pytest.raises(GraphError, match=r"error\[token-range\]: prompt 0 holds token id \d+"):
        engine.generate(["The package manager"], max_new_tokens=1)


def test_running_with_an_empty_prompts_file_says_so(
    saved: Path, tmp_path: Path, command: Command
) -> None:
    (tmp_path / "prompts").write_text("")
    ended = command("run", saved, "--prompts-file", tmp_path / "prompts")
    assert ended.code == 2
    assert "no prompt" in ended.error
