"""A dump is read whole, or refused with one error that says which file is wrong."""

from collections.abc import Callable
from pathlib import Path

import pytest
from click.testing import CliRunner

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.cli.main import cli
from ascendfx.runtime.cli.report import report
from ascendfx.runtime.report.overview import overview
from ascendfx.runtime.report.page_data import page_data
from ascendfx.runtime.report.read_whole_dump import read_whole_dump
from tests.report.small_dump import BROKEN, write_small_dump


def test_a_dump_is_read_whole(tmp_path: Path) -> None:
    dump = read_whole_dump(write_small_dump(tmp_path))
    (stage,) = dump.stages
    assert [version.name for version in stage.versions] == ["input", "fuse", "simplify"]
    assert [graph.name for graph in stage.versions[1].graphs] == ["main", "layer_0"]
    assert stage.versions[1].graphs is stage.versions[2].graphs
    assert stage.plan is not None
    assert set(stage.kernels) == {"decode_silu"}


def test_plan_cost_timing_and_errors_may_be_missing(tmp_path: Path) -> None:
    folder = write_small_dump(tmp_path, error=None)
    for name in ("timing.json", "decode/plan.json", "decode/cost.json"):
        (folder / name).unlink()
    dump = read_whole_dump(folder)
    assert dump.timing == {}
    assert dump.stages[0].plan is None
    assert dump.stages[0].cost is None


def cut(name: str) -> Callable[[Path], None]:
    def apply(dump: Path) -> None:
        text = (dump / name).read_text(encoding="utf-8")
        (dump / name).write_text(text[: len(text) * 2 // 3], encoding="utf-8")

    return apply


def gone(name: str) -> Callable[[Path], None]:
    return lambda dump: (dump / name).unlink()


def holds(name: str, text: str | bytes) -> Callable[[Path], None]:
    def apply(dump: Path) -> None:
        (dump / name).write_bytes(text.encode() if isinstance(text, str) else text)

    return apply


def changed(name: str, old: str, new: str) -> Callable[[Path], None]:
    def apply(dump: Path) -> None:
        text = (dump / name).read_text(encoding="utf-8")
        assert old in text
        (dump / name).write_text(text.replace(old, new), encoding="utf-8")

    return apply


DAMAGED = {
    "header-cut": cut("dump.json"),
    "header-list": holds("dump.json", "[]"),
    "header-no-stages": changed("dump.json", '["decode"]', "null"),
    "header-odd-stage": changed("dump.json", '["decode"]', "[[]]"),
    "header-stage-elsewhere": changed("dump.json", '["decode"]', '["../decode"]'),
    "header-unknown-stage": changed("dump.json", '["decode"]', '["prefill"]'),
    "index-cut": cut("decode/index.json"),
    "index-empty": holds("decode/index.json", ""),
    "index-gone": gone("decode/index.json"),
    "index-object": holds("decode/index.json", "{}"),
    "index-odd-entry": holds("decode/index.json", "[1]"),
    "index-no-pass": changed("decode/index.json", '"pass"', '"pas"'),
    "index-odd-error": changed("decode/index.json", '"error": {', '"error": 3, "was": {'),
    "index-odd-broken": changed("decode/index.json", '"broken": "', '"broken": 3, "was": "'),
    "index-file-elsewhere": changed("decode/index.json", "01-fuse.ir", "../01-fuse.ir"),
    "index-deep": holds("decode/index.json", "[" * 100_000),
    "program-cut": cut("decode/01-fuse.ir"),
    "program-gone": gone("decode/02-simplify.ir"),
    "program-binary": holds("decode/00-input.ir", b"\xff\xfe\x00"),
    "program-empty": holds("decode/00-input.ir", ""),
    "plan-cut": cut("decode/plan.json"),
    "plan-list": holds("decode/plan.json", "[]"),
    "plan-no-buffers": changed("decode/plan.json", '"buffers"', '"buffer"'),
    "plan-unknown-buffer": changed("decode/plan.json", '"buffer": "cast.1"', '"buffer": "x"'),
    "plan-unknown-kernel": changed("decode/plan.json", '"kernel": "decode_silu"', '"kernel": "x"'),
    "cost-cut": cut("decode/cost.json"),
    "cost-no-total": changed("decode/cost.json", '"total"', '"totl"'),
    "cost-text": changed("decode/cost.json", "9.5", '"9.5"'),
    "cost-odd-entry": changed("decode/cost.json", '"kernels": [', '"kernels": [1, '),
    "kernel-cut": cut("decode/kernels/decode_silu.cpp"),
    "kernel-edited": changed("decode/kernels/decode_silu.cpp", "N = 16", "N = 61"),
    "kernel-unknown": holds("decode/kernels/other.cpp", ""),
    "kernel-hashes-cut": cut("decode/kernels.json"),
    "kernel-hashes-gone": gone("decode/kernels.json"),
    "timing-cut": cut("timing.json"),
}


@pytest.mark.parametrize("damage", DAMAGED.values(), ids=DAMAGED)
def test_a_damaged_dump_is_one_clear_error(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    dump = write_small_dump(tmp_path)
    damage(dump)
    with pytest.raises(GraphError) as caught:
        read_whole_dump(dump)
    assert caught.value.code == "damaged-dump"
    assert str(dump) in str(caught.value)


def test_stages_that_were_not_reached_are_named(tmp_path: Path) -> None:
    replaced = {'"stages": ["decode"]': '"stages": ["decode", "prefill"]'}
    dump = read_whole_dump(write_small_dump(tmp_path, replace=replaced))
    assert [stage.name for stage in dump.stages] == ["decode"]
    assert dump.missing == ("prefill",)
    assert overview(page_data(dump)).notices == (
        "The compilation was stopped after decode / simplify; not reached: prefill",
        f"decode / fuse is declared real, but {BROKEN}",
    )


def test_no_dump_no_format_no_kernel_text_have_their_own_code(tmp_path: Path) -> None:
    missing = ((tmp_path / "nowhere", "there is no directory"), (tmp_path, "it has no dump.json"))
    for folder, said in missing:
        with pytest.raises(GraphError, match=said) as caught:
            read_whole_dump(folder)
        assert caught.value.code == "not-a-dump"
    dump = write_small_dump(tmp_path)
    (dump / "decode" / "kernels" / "decode_silu.cpp").unlink()
    with pytest.raises(GraphError) as caught:
        read_whole_dump(dump)
    assert caught.value.code == "missing-kernel"
    dump = write_small_dump(tmp_path, replace={'"format": 2, "ascendfx"': '"format": 1, "a"'})
    with pytest.raises(GraphError, match="the dump has format 1, this version reads 2"):
        read_whole_dump(dump)


def test_a_kernel_that_is_cut_off_is_named(tmp_path: Path) -> None:
    dump = write_small_dump(tmp_path)
    cut("decode/kernels/decode_silu.cpp")(dump)
    with pytest.raises(GraphError) as caught:
        read_whole_dump(dump)
    assert str(caught.value).replace(str(dump), "DUMP") == (
        "error[damaged-dump]: DUMP/decode/kernels/decode_silu.cpp: "
        "it is cut off, was edited or is of another compilation\n"
        "\n"
        "hint: compile again"
    )


def test_the_message_is_this(tmp_path: Path) -> None:
    dump = write_small_dump(tmp_path)
    (dump / "decode" / "01-fuse.ir").write_text("graph @g {\n  %0 = silu %7", encoding="utf-8")
    with pytest.raises(GraphError) as caught:
        read_whole_dump(dump)
    assert str(caught.value).replace(str(dump), "DUMP") == (
        "error[damaged-dump]: this is not the text form of a program, or it ends too early\n"
        "  --> DUMP/decode/01-fuse.ir:2\n"
        "   |\n"
        "   | %0 = silu %7\n"
        "   |\n"
        "\n"
        "hint: compile the model again"
    )


def test_the_command_explains_itself() -> None:
    shown = CliRunner().invoke(cli, ["report", "--help"])
    assert shown.exit_code == 0
    assert "Usage: cli report [OPTIONS] DUMP" in shown.output
    assert "-o, --output FILE" in shown.output


def test_the_command_leaves_no_half_page(tmp_path: Path) -> None:
    dump = write_small_dump(tmp_path)
    page = tmp_path / "page.html"
    cut("decode/index.json")(dump)
    result = CliRunner().invoke(report, [str(dump), "-o", str(page)])
    assert isinstance(result.exception, GraphError)
    assert not page.exists()
    write_small_dump(tmp_path)
    result = CliRunner().invoke(report, [str(dump), "-o", str(page)])
    assert result.stdout == f"{page}: {page.stat().st_size:,} bytes\n"
    made = tmp_path / "made" / "page.html"
    assert CliRunner().invoke(report, [str(dump), "-o", str(made)]).exit_code == 0
    assert made.read_bytes() == page.read_bytes()
    result = CliRunner().invoke(report, [str(dump), "-o", str(page / "page.html")])
    assert isinstance(result.exception, GraphError)
    assert result.exception.code == "not-writable"
