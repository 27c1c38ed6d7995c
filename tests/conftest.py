"""Hypothesis profiles, golden files and FileCheck files for pytest."""

import gc
import io
import re
import sys
from collections.abc import Iterator
from contextlib import redirect_stderr
from pathlib import Path

import pytest
from filecheck.finput import FInput
from filecheck.matcher import Matcher
from filecheck.options import Options
from filecheck.parser import Parser
from hypothesis import settings

from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import PASSES
from ascendfx.quant_passes.registry import QUANT_PASSES
from tests.golden_file import Golden

settings.register_profile("ci", derandomize=True, max_examples=100, deadline=None)
settings.register_profile("nightly", max_examples=5_000, deadline=None)
settings.load_profile("ci")  # the default is repeatable


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--update-golden", action="store_true", help="rewrite golden files")
    parser.addoption("--nightly", action="store_true", help="run tests marked nightly, too")


def pytest_configure(config: pytest.Config) -> None:
    if config.getoption("--nightly"):
        settings.load_profile("nightly")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    # The longest tests first: at the end, one worker would wait for them.
    items.sort(key=lambda item: item.path.name != "test_examples.py")
    if config.getoption("--nightly"):
        return
    skip = pytest.mark.skip(reason="runs with --nightly")
    for item in items:
        if item.get_closest_marker("nightly"):
            item.add_marker(skip)


def pytest_collection_finish() -> None:
    # What is imported stays: the collector of garbage need not look at it again and again, and a
    # capture makes a hundred thousand objects at a time.
    gc.freeze()
    gc.set_threshold(10_000, 10, 10)


@pytest.hookimpl(tryfirst=True)
def pytest_runtest_setup() -> None:
    # Which tests ran before in this worker decides nothing. Ours ask for generators of their own;
    # modules of torch that a test builds do not.
    if torch := sys.modules.get("torch"):
        torch.manual_seed(0)


@pytest.fixture
def golden(request: pytest.FixtureRequest) -> Golden:
    return Golden(update=bool(request.config.getoption("--update-golden")))


def pytest_collect_file(parent: pytest.Collector, file_path: Path) -> pytest.File | None:
    if file_path.suffix == ".ir" and "filecheck" in file_path.parts:
        return ProgramFile.from_parent(parent, path=file_path)
    return None


class ProgramFile(pytest.File):
    """A program in text form, the passes to run and the lines to expect."""

    def collect(self) -> Iterator[pytest.Item]:
        yield ProgramItem.from_parent(self, name=self.path.stem)


class ProgramItem(pytest.Item):
    """Runs the passes of the RUN line and checks the printed program, then the remarks."""

    def runtest(self) -> None:
        text = self.path.read_text(encoding="utf-8")
        run = re.search(r"^// RUN: (?P<passes>\S*)$", text, re.MULTILINE)
        assert run, "the first line must be `// RUN: pass,pass`"
        known = {**PASSES, **QUANT_PASSES}
        passes = [known[name] for name in filter(None, run["passes"].split(","))]
        final, runs = run_pipeline(parse_program(text, file=self.path.name), passes)
        remarks = "".join(f"remark: {line}\n" for each in runs for line in each.remarks)
        printed = print_program(final) + remarks
        options = Options(match_filename=str(self.path), comment_prefixes=["COM", "RUN"])
        matcher = Matcher(options, FInput("output", printed), Parser.from_opts(options))
        complaint = io.StringIO()
        with redirect_stderr(complaint):
            matcher.stderr = complaint
            code = matcher.run()
        if code:
            pytest.fail(f"{complaint.getvalue()}\nactual output:\n{printed}", pytrace=False)

    def reportinfo(self) -> tuple[Path, None, str]:
        return self.path, None, f"filecheck: {self.path.name}"
