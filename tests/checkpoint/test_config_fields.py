"""Every field of a configuration that we read ourselves is right, or named in one error."""

import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendfx.ir.capture.config_fields import block_in, count_in, end_ids_in
from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.checkpoint import capture_model as module
from ascendfx.runtime.checkpoint.capture_model import capture_model, draft_layer_count
from tests.checkpoint.draft_checkpoint import write_checkpoint

COUNTS = (
    "max_position_embeddings",
    "num_hidden_layers",
    "num_nextn_predict_layers",
    "vocab_size",
)
NO_COUNTS = ("x", "2", [1], {}, True, False, 1.5, 2.0, -1)
NO_END_IDS = ("x", [[1]], ["1"], {}, True, [True], 1.5, [1, 2.5], [None], -1, [3, -1])
NO_QUANTIZATION = ("x", [1], 3, True, {"weight_block_size": "x"}, {"weight_block_size": 128})
NO_BLOCKS = ([128], [128, 128, 128], [0, 128], [128, -1], ["a", "b"], [1.5, 2], {}, [True, True])


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("model")
    write_checkpoint(directory)
    return directory


def _refused(
    directory: Path, file: str, field: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> GraphError:
    """Return the error for one field, which is found before the model is built."""

    def fail(*_: object, **__: object) -> None:
        raise AssertionError("built the model")

    monkeypatch.setattr(module, "_trace", fail)
    path = directory / file
    before = path.read_text(encoding="utf-8")
    try:
        path.write_text(json.dumps({**json.loads(before), field: value}), encoding="utf-8")
        with pytest.raises(GraphError) as caught:
            capture_model(directory)
    finally:
        path.write_text(before, encoding="utf-8")
    return caught.value


@pytest.mark.parametrize(
    ("file", "field", "value"),
    [
        *(("config.json", name, value) for name in COUNTS for value in NO_COUNTS),
        *(("config.json", "eos_token_id", value) for value in NO_END_IDS),
        *(("generation_config.json", "eos_token_id", value) for value in NO_END_IDS),
        *(("config.json", "quantization_config", value) for value in NO_QUANTIZATION),
        *(("config.json", "quantization_config", {"weight_block_size": v}) for v in NO_BLOCKS),
    ],
)
def test_a_field_of_another_form_is_named_with_its_file(
    directory: Path, file: str, field: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = _refused(directory, file, field, value, monkeypatch)
    assert error.code == "bad-config"
    assert error.reason.startswith(f"`{field}")
    assert str(directory / file) in error.reason
    assert error.hint


@pytest.mark.parametrize("file", ["config.json", "generation_config.json"])
@pytest.mark.parametrize("value", [99_999, [0, 99_999], 61])
def test_an_end_token_outside_the_vocabulary_is_refused(
    directory: Path, file: str, value: object, monkeypatch: pytest.MonkeyPatch
) -> None:
    error = _refused(directory, file, "eos_token_id", value, monkeypatch)
    assert error.code == "bad-config"
    assert "token ids are 0 to 60" in error.reason


def test_the_number_of_draft_layers_is_checked_where_it_is_asked_for(tmp_path: Path) -> None:
    config = tmp_path / "config.json"
    config.write_text(json.dumps({"num_hidden_layers": 2, "num_nextn_predict_layers": "x"}))
    with pytest.raises(GraphError, match=r"error\[bad-config\]: `num_nextn_predict_layers`"):
        draft_layer_count(tmp_path)


@pytest.mark.parametrize(
    ("found", "ids"),
    [(None, ()), (0, (0,)), ([], ()), ([3, 1], (3, 1)), ((4,), (4,)), (np.int64(2), (2,))],
)
def test_end_tokens_are_one_several_or_none(found: Any, ids: tuple[int, ...]) -> None:
    assert end_ids_in({"eos_token_id": found}, "it", 5) == ids
    assert end_ids_in({}, "it", 5) == ()


def test_without_a_vocabulary_only_the_sign_is_checked() -> None:
    assert end_ids_in({"eos_token_id": 10**6}, "it", 0) == (10**6,)
    with pytest.raises(GraphError, match="token ids are 0 or more"):
        end_ids_in({"eos_token_id": -1}, "it", 0)


def test_what_is_missing_or_null_has_a_default() -> None:
    for config in ({}, {"layers": None, "quantization_config": None}):
        assert count_in(config, "layers", "it") == 0
        assert block_in(config, "it") == (128, 128)
    assert count_in({"layers": 3}, "layers", "it") == 3
    for quantization, block in (({}, (128, 128)), ({"weight_block_size": [16, 64]}, (16, 64))):
        assert block_in({"quantization_config": quantization}, "it") == block
