"""What the dump writer writes: complete files, readable again, and never over foreign contents."""

import json
from pathlib import Path

import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.text.located import parse_located, print_located
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import PASSES, RAISE
from ascendfx.passes.simplify import Simplify
from ascendfx.passes.verification.verify_stages import StageVerifier
from ascendfx.runtime.dumps.dump_header import DumpHeader
from ascendfx.runtime.dumps.write_dump import DumpWriter
from ascendfx.runtime.progress import silent
from ascendfx.runtime.rewriting import Rewriting
from tests.passes.captured_models import captured
from tests.passes.zero_model import ZERO_TABLE, ZERO_TOKENS, zero_dropped, zero_model

_FILES = Path(__file__).parents[1] / "filecheck"
_HEADER = DumpHeader(None, None, "ascend910b2", {}, "ordered", ("serving",))


def writer(directory: Path) -> DumpWriter:
    made = DumpWriter(directory)
    made.begin(_HEADER)
    return made


def test_every_step_is_dumped_and_can_be_read_back(tmp_path: Path) -> None:
    program = captured("llama_f32")
    made = writer(tmp_path / "dump")
    made.stage("serving", program)
    _, runs = run_pipeline(program, RAISE, observe=lambda run: made.passed("serving", run))
    folder = tmp_path / "dump" / "serving"
    names = [f"{i:02d}-{each.name}.ir" for i, each in enumerate(RAISE, start=1)]
    assert sorted(p.name for p in folder.iterdir()) == ["00-input.ir", *names, "index.json"]
    texts = [(folder / name).read_text(encoding="utf-8") for name in ("00-input.ir", *names)]
    assert [parse_program(text) for text in texts] == [program, *(run.program for run in runs)]


def test_the_index_says_what_each_pass_did(tmp_path: Path) -> None:
    path = _FILES / "rms-norm.eps-is-zero.ir"
    program = parse_program(path.read_text(encoding="utf-8"), file=path.name)
    made = writer(tmp_path)
    made.stage("serving", program)
    passes = [PASSES["rms-norm"], Simplify()]
    run_pipeline(program, passes, observe=lambda run: made.passed("serving", run))
    index = json.loads((tmp_path / "serving" / "index.json").read_text(encoding="utf-8"))
    assert [entry["file"] for entry in index] == ["01-apply-rules.ir", "02-simplify.ir"]
    assert index[0] == {
        "file": "01-apply-rules.ir",
        "pass": "apply-rules",
        "code": "ascendfx.passes.apply_rules:ApplyRules",
        "fidelity": "real",
        "parameters": {
            "max_rounds": 100,
            "rules": [{"name": "rms-norm", "rule": "ascendfx.passes.rules:rms-norm"}],
        },
        "statistics": {},
        "remarks": [
            "rms-norm: eps is not positive: a zero row has no norm at rms-norm.eps-is-zero.ir:17"
        ],
        "changed": False,
        "error": None,
        "broken": None,
    }
    timing = json.loads((tmp_path / "timing.json").read_text(encoding="utf-8"))
    assert [entry["pass"] for entry in timing["passes"]["serving"]] == ["apply-rules", "simplify"]


def test_the_index_says_what_is_broken_also_where_no_error_is_large(tmp_path: Path) -> None:
    program = zero_model(0.0)
    verifier = StageVerifier(program, (), ZERO_TABLE, ZERO_TOKENS)
    with pytest.raises(GraphError, match=r"error\[fidelity-broken\]"):
        Rewriting(writer(tmp_path), verifier, silent).run(
            "serving", program, (Simplify(), zero_dropped())
        )
    index = json.loads((tmp_path / "serving" / "index.json").read_text(encoding="utf-8"))
    assert [each["broken"] for each in index] == [None, "it is declared bitwise, and bits differ"]
    assert [each["error"]["max"] for each in index] == [0.0, 0.0]
    assert [layer["broken"] for layer in index[1]["error"]["layers"]] == [False]


def test_locations_survive_the_text_form() -> None:
    path = _FILES / "rms-norm.eps-is-zero.ir"
    program = parse_program(path.read_text(encoding="utf-8"), file="some folder/rms norm.ir")
    again = parse_located(print_located(program))
    assert again == program
    for one, other in zip(program.graphs, again.graphs, strict=True):
        assert [n.location for n in one.nodes] == [n.location for n in other.nodes]


def test_an_older_dump_is_replaced_and_other_files_stay(tmp_path: Path) -> None:
    program = captured("llama_f32")
    writer(tmp_path).stage("serving", program)
    (tmp_path / "notes.txt").write_text("mine", encoding="utf-8")
    (tmp_path / "serving" / "07-old.ir").write_text("old", encoding="utf-8")
    writer(tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir()) == ["dump.json", "notes.txt"]


def test_foreign_contents_are_refused_and_left_alone(tmp_path: Path) -> None:
    (tmp_path / "serving").mkdir()
    (tmp_path / "serving" / "thesis.txt").write_text("years", encoding="utf-8")
    with pytest.raises(GraphError, match=r"error\[not-a-dump\]: .* is no dump directory"):
        writer(tmp_path)
    assert (tmp_path / "serving" / "thesis.txt").read_text(encoding="utf-8") == "years"


@pytest.mark.parametrize("stages", ['["../other"]', "7", "{}"])
def test_a_header_that_names_other_folders_deletes_nothing(tmp_path: Path, stages: str) -> None:
    (tmp_path / "dump.json").write_text(f'{{"stages": {stages}}}', encoding="utf-8")
    with pytest.raises(GraphError, match=r"error\[damaged-dump\]"):
        writer(tmp_path)
    assert (tmp_path / "dump.json").is_file()
