"""Size and first paint of the report of the bundled model and of DeepSeek-V3 at full size.

    python tests/benchmarks/report_page.py [DUMP ...]

Without arguments both models are compiled, the large one on meta tensors. First paint is what the
browser's own performance observer says (first contentful paint), from a file, median of several
loads in headless Chromium; "ready" is when every part of the page answers.
"""

import argparse
import statistics
import tempfile
import time
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from ascendfx.find_bundled_model import bundled_model
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.limits import Limits
from ascendfx.runtime.report.read_whole_dump import read_whole_dump
from ascendfx.runtime.report.write_page import write_page
from tests.report.conftest import find_browser

LOADS = 5

FIRST_PAINT = """() => new Promise((resolve) => {
  new PerformanceObserver((list) => {
    const paint = list.getEntries().find((entry) => entry.name === "first-contentful-paint");
    if (paint) resolve(paint.startTime);
  }).observe({type: "paint", buffered: true});
})"""


def dump_bundled(directory: Path) -> None:
    """Write the dump of the bundled model."""
    compile_model(bundled_model(), dump_dir=directory, trace_folder=trace_folder_of(None))


def dump_full_v3(directory: Path) -> None:
    """Write the dump of a V3 with 61 layers and 671 billion parameters."""
    import torch  # noqa: PLC0415
    from transformers import DeepseekV3Config, DeepseekV3ForCausalLM  # noqa: PLC0415

    # The defaults of DeepseekV3Config are those of the published checkpoint.
    config = DeepseekV3Config(torch_dtype="bfloat16")
    with torch.device("meta"):
        model = DeepseekV3ForCausalLM(config).to(torch.bfloat16).eval()
    compile_model(model, limits=Limits(max_batch=32, max_context=4096), dump_dir=directory)


def dumps(named: Sequence[str], scratch: Path) -> Iterator[tuple[str, Path]]:
    """Yield what to look at."""
    for name in named:
        yield name, Path(name)
    if not named:
        for name, write in (("bundled model", dump_bundled), ("V3, 671 B", dump_full_v3)):
            write(scratch / name)
            yield name, scratch / name


def load_seconds(browser: Any, page: Path) -> tuple[float, float]:
    """Return the medians of first paint and of ready, in milliseconds."""
    painted: list[float] = []
    ready: list[float] = []
    for _ in range(LOADS):
        context = browser.new_context(viewport={"width": 1280, "height": 800})
        tab = context.new_page()
        tab.goto(page.as_uri(), wait_until="commit")
        painted.append(tab.evaluate(FIRST_PAINT))
        tab.wait_for_selector("html[data-ready]")
        ready.append(tab.evaluate("performance.now()"))
        context.close()
    return statistics.median(painted), statistics.median(ready)


def main() -> None:
    """Print the figures."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dumps", nargs="*", metavar="DUMP", help="folders to look at")
    named = parser.parse_args().dumps
    place = find_browser()
    with tempfile.TemporaryDirectory() as scratch:
        for name, dump in dumps(named, Path(scratch)):
            page = Path(scratch) / "page.html"
            start = time.perf_counter()
            size = write_page(read_whole_dump(dump), page)
            print(f"{name}: {size:,} bytes, written in {time.perf_counter() - start:.2f} s")
            if place is None:
                print("no Chromium here: first paint not measured")
                continue
            from playwright.sync_api import sync_playwright  # noqa: PLC0415

            with sync_playwright() as playwright:
                browser = playwright.chromium.launch(
                    executable_path=place, args=["--no-sandbox", "--disable-gpu"]
                )
                paint, ready = load_seconds(browser, page)
                browser.close()
            print(f"{name}: first paint {paint:.0f} ms, ready {ready:.0f} ms, median of {LOADS}")


if __name__ == "__main__":
    main()
