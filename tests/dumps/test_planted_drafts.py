"""A mistake in a pass over a draft layer is named, reduced and replayed like one in the model."""

from contextlib import suppress
from functools import cache
from pathlib import Path

import pytest
from transformers import DeepseekV3ForCausalLM

from ascendfx.ir.capture.capture_draft import capture_draft
from ascendfx.ir.capture.capture_module import capture_module
from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.diagnostic import GraphError
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.runtime.dumps.dump_header import DumpHeader
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.presets import TO_SERVING
from tests.dumps import planted
from tests.dumps.planted_command import command
from tests.dumps.planted_dump import with_mistake
from tests.passes.draft_modules import deepseek_draft
from tests.passes.fused_steps import small_config

_BUGS = ("swiglu_swapped", "cached_scale", "operands_ignored", "slots_for_positions")
_SAMPLE = ("cached_scale",)
_NODES = 16
"""Most nodes of a case: the attention of a draft layer stands in the entry, with the tables of its
rotations, which have no axis of texts and cannot be looked up by token."""


@cache
def _captured() -> CapturedModel:
    main = DeepseekV3ForCausalLM(small_config()).eval()
    return capture_draft(deepseek_draft(), main, capture_module(main))


def _dump_with(bug: str, directory: Path) -> str:
    """Write a dump whose draft layer meets the mistake; return the name of the pass."""
    model = _captured()
    chosen, name = with_mistake(getattr(planted, bug), TO_SERVING)
    writer = DumpWriter(directory)
    writer.begin(DumpHeader(None, None, "ascend910b2", {}, "ordered", ("serving", "draft")))
    writer.stage("serving", model.program)
    writer.stage("draft", model.drafts[0])
    with suppress(GraphError):  # a later pass refuses what the broken one made; the dump remains
        run_pipeline(model.drafts[0], chosen, observe=lambda run: writer.passed("draft", run))
    return name


@pytest.mark.parametrize(
    "bug",
    [pytest.param(bug, marks=() if bug in _SAMPLE else (pytest.mark.nightly,)) for bug in _BUGS],
)
def test_a_mistake_in_a_draft_layer_is_found_reduced_and_replayed(bug: str, tmp_path: Path) -> None:
    name = _dump_with(bug, tmp_path / "dump")
    case = tmp_path / "case.json"
    done = command("reduce", tmp_path / "dump", "-o", case, "--random", "0")
    assert done.returncode == 0, done.stderr
    assert f"pass: {name} (draft/" in done.stdout
    nodes = int(done.stdout.rpartition("case.json: ")[2].split()[0])
    assert nodes <= _NODES
    replayed = command("replay", case)
    assert replayed.returncode == 1, replayed.stderr
    assert "stored programs: difference" in replayed.stdout
    assert "pass of this installation: difference" in replayed.stdout
