"""Row a of the main job: the emulator writes what transformers writes."""

import pytest
from click.testing import CliRunner

from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.engine.engine import Engine
from tests.models.bundled import Golden


def test_the_kernels_generate_the_golden_tokens(
    engine_f32: Engine, golden: tuple[Golden, ...]
) -> None:
    assert [len(each.output_ids) for each in golden] == [64] * 5
    results = engine_f32.generate(
        [each.prompt_ids for each in golden], max_new_tokens=64, min_new_tokens=64
    )
    for each, result in zip(golden, results, strict=True):
        assert result.token_ids == each.output_ids, each.prompt
        assert result.finish_reason == "length"


def test_prompts_as_text_become_the_golden_prompt_tokens(
    engine_f32: Engine, golden: tuple[Golden, ...]
) -> None:
    results = engine_f32.generate([each.prompt for each in golden], max_new_tokens=1)
    assert [result.prompt_ids for result in results] == [each.prompt_ids for each in golden]


@pytest.mark.usefixtures("engine_f32")  # builds the kernels, so that the demo finds them
def test_the_demo_prints_that_all_golden_tokens_are_right() -> None:
    result = CliRunner().invoke(cli, ["demo"])
    assert result.exit_code == 0, result.output
    assert "\ngolden tokens: 320/320\n" in result.stdout
    assert result.stderr == ""
