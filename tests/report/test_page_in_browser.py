"""The page in headless Chromium: nothing is fetched, keys reach everything, it fits."""

from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ascendfx.runtime.engine.metrics import Acceptance, Metrics
from ascendfx.runtime.report.read_whole_dump import read_whole_dump
from ascendfx.runtime.report.write_page import TABS, page_text
from tests.report.metrics_example import METRICS
from tests.report.poisoned_page import NASTY, poison
from tests.report.small_dump import write_small_dump

Open = Callable[..., Any]

CONTRAST = """() => {
  const canvas = document.createElement("canvas").getContext("2d", {willReadFrequently: true});
  const rgba = (color) => {
    canvas.clearRect(0, 0, 1, 1);
    canvas.fillStyle = color;
    canvas.fillRect(0, 0, 1, 1);
    return [...canvas.getImageData(0, 0, 1, 1).data].map((v) => v / 255);
  };
  const over = (top, under) => [0, 1, 2].map((k) => top[k] * top[3] + under[k] * (1 - top[3]));
  const light = (color) => {
    const [r, g, b] = color.map((v) => (v <= 0.04045 ? v / 12.92 : ((v + 0.055) / 1.055) ** 2.4));
    return 0.2126 * r + 0.7152 * g + 0.0722 * b;
  };
  const below = (element) => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) {
      const style = getComputedStyle(at);
      const fill = at.closest("svg") && at.matches("g") ? at.querySelector("rect") : null;
      layers.push(rgba(fill ? getComputedStyle(fill).fill : style.backgroundColor));
    }
    return layers.reverse().reduce((under, top) => over(top, under), [1, 1, 1]);
  };
  const bad = [];
  const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walk.nextNode()) {
    const element = walk.currentNode.parentElement;
    if (!walk.currentNode.data.trim() || !element.getClientRects().length) continue;
    if (["SCRIPT", "STYLE", "TITLE", "title"].includes(element.tagName)) continue;
    const style = getComputedStyle(element);
    const under = below(element);
    const ink = over(rgba(element.closest("svg") ? style.fill : style.color), under);
    const [a, b] = [light(ink), light(under)].sort((x, y) => y - x);
    const ratio = (a + 0.05) / (b + 0.05);
    if (ratio < 4.5)
      bad.push(`${ratio.toFixed(2)} ${element.outerHTML.slice(0, 90)}`);
  }
  return [...new Set(bad)].slice(0, 20);
}"""


@pytest.fixture
def open_page(browser: Any, tmp_path: Path) -> Iterator[Open]:
    """Open the page of a dump; at the end nothing may have been fetched and nothing complained."""
    contexts: list[Any] = []
    complaints: list[str] = []

    def note(url: str, own: str) -> None:
        if url not in (own, "data:,"):
            complaints.append(url)

    def opened(
        hash_: str = "",
        *,
        dump: Path | None = None,
        width: int = 1280,
        theme: str = "light",
        metrics: Metrics | None = None,
    ) -> Any:
        file = tmp_path / "page.html"
        read = read_whole_dump(dump or write_small_dump(tmp_path))
        file.write_text(page_text(read, metrics), encoding="utf-8")
        context = browser.new_context(
            viewport={"width": width, "height": 800}, color_scheme=theme, reduced_motion="reduce"
        )
        contexts.append(context)
        context.set_default_timeout(600_000)  # a busy machine takes long for a page
        page = context.new_page()
        page.on("console", lambda message: complaints.append(message.text))
        page.on("pageerror", lambda error: complaints.append(str(error)))
        page.on("request", lambda request: note(request.url, file.as_uri()))
        page.goto(file.as_uri() + hash_)
        page.wait_for_selector("html[data-ready]")
        return page

    yield opened
    for context in contexts:
        context.close()
    assert not complaints


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("width", [360, 1280])
def test_every_part_fits_and_is_legible(open_page: Open, width: int, theme: str) -> None:
    page = open_page(width=width, theme=theme, metrics=METRICS)
    for number, name in enumerate(TABS, start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f"#panel-{name}:not([hidden])")
        if name == "kernels":
            page.wait_for_selector(".cpp")
        wide = "document.documentElement.scrollWidth - document.documentElement.clientWidth"
        assert page.evaluate(wide) <= 0, name
        assert page.evaluate(CONTRAST) == [], name


def test_requests_are_unfolded_by_keys(open_page: Open) -> None:
    ended = {i: Acceptance(1, 2, 1, 1) for i in range(21)}
    page = open_page(metrics=replace(METRICS, ended=ended))
    assert not page.is_visible("#acceptance details table")
    page.focus("#acceptance summary")
    page.keyboard.press("Enter")
    assert page.is_visible("#acceptance details table")
    assert page.locator("#acceptance details tbody tr").count() == 21


def test_the_theme_can_be_switched(open_page: Open) -> None:
    page = open_page(theme="dark")
    ground = "getComputedStyle(document.body).backgroundColor"
    dark = page.evaluate(ground)
    page.click("#theme")
    light = page.evaluate(ground)
    assert page.inner_text("#theme") == "theme: light"
    assert light != dark
    page.click("#theme")
    assert page.evaluate(ground) == dark


def test_tab_reaches_every_control_and_shows_where_it_is(open_page: Open) -> None:
    page = open_page("#passes/decode/1")
    seen: list[str] = []
    look = """() => { const at = document.activeElement; const style = getComputedStyle(at);
      return [at.id || at.className || at.tagName, style.outlineStyle !== "none"]; }"""
    for _ in range(40):
        page.keyboard.press("Tab")
        name, visible = page.evaluate(look)
        if name == "BODY" or (seen and name == seen[0]):
            break
        assert visible, name
        seen.append(name)
    assert seen[:4] == ["search", "theme", "keys", "tab-passes"]
    assert {"place", "BUTTON"} & set(seen)


def test_arrows_go_through_passes(open_page: Open) -> None:
    page = open_page("#passes/decode/1")
    assert page.inner_text("#panel-passes .main h2") == "decode / 01 fuse"
    page.focus("[role=option][tabindex='0']")
    page.keyboard.press("ArrowDown")
    assert page.inner_text("#panel-passes .main h2") == "decode / 02 simplify"
    assert page.url.endswith("#passes/decode/2")
    page.keyboard.press("Home")
    assert page.inner_text("#panel-passes .main h2") == "decode / 01 fuse"
    page.keyboard.press("End")
    assert page.get_attribute("[role=option][data-index='2']", "aria-selected") == "true"


def test_a_diff_shows_both_sides_and_the_models_lines(open_page: Open) -> None:
    page = open_page("#passes/decode/1")
    kinds = page.eval_on_selector_all(".diff tbody tr", "rows => rows.map(row => row.className)")
    assert kinds == ["same", "replaced", "removed", "edited", "same"]
    assert page.inner_text(".diff .replaced td.old .ir") == "%1 = sigmoid %0 : f32[rows]"
    assert page.inner_text(".diff .replaced td.new .ir") == "%1 = silu %0 : f32[rows]"
    assert page.inner_text(".diff .edited td.new mark") == "%1"
    page.click(".diff .replaced td.new .place")
    assert page.inner_text(".source .here").strip() == "30line 30"
    links = page.eval_on_selector_all(".source a", "all => all.map(a => a.href)")
    assert links[0].startswith("vscode://file/")
    assert links[0].endswith("/model.py:30")
    assert links[1].startswith("file:///")
    page.click(".diff .replaced td.new .place")
    assert page.query_selector(".source") is None


def test_the_graph_is_walked_opened_and_zoomed_by_keys(open_page: Open) -> None:
    page = open_page("#graph/decode/0/layer_0")
    page.click("text=close all")
    assert page.get_attribute(".box.module", "aria-expanded") == "false"
    page.focus(".box[tabindex='0']")
    page.keyboard.press("ArrowDown")
    assert page.evaluate("document.activeElement.dataset.id") == "/act"
    page.keyboard.press("Enter")
    assert page.get_attribute(".box.title", "aria-expanded") == "true"
    assert page.evaluate("document.activeElement.dataset.id") == "/act"
    page.focus(".box[data-id='0']")
    page.keyboard.press("ArrowDown")
    assert page.inner_text(".graph-view .detail h3") == "%1 sigmoid"
    page.keyboard.press("Backspace")
    assert page.evaluate("document.activeElement.dataset.id") == "/act"
    page.keyboard.press("ArrowDown")
    assert page.inner_text(".graph-view .detail h3") == "%1 sigmoid"
    assert "line 30" in page.inner_text(".graph-view .detail .source .here")
    before = page.get_attribute("svg.graph > g", "transform")
    page.keyboard.press("+")
    assert page.get_attribute("svg.graph > g", "transform") != before
    page.keyboard.press("Shift+ArrowLeft")
    page.keyboard.press("0")


def test_a_node_leads_to_its_kernel(open_page: Open) -> None:
    page = open_page("#graph/decode/2/layer_0/1")
    assert page.inner_text(".graph-view .detail h3") == "%1 silu"
    page.click(".graph-view .detail a:has-text('decode_silu')")
    page.wait_for_selector(".cpp")
    assert page.inner_text("#panel-kernels .main h2") == "decode_silu"
    assert "kernel_operator.h" in page.inner_text(".cpp")
    assert page.inner_text(".kernel td:nth-child(3)") == "9.5 µs"


def test_the_memory_map_is_walked_by_keys(open_page: Open) -> None:
    page = open_page("#memory")
    page.focus(".range[tabindex='0']")
    page.keyboard.press("ArrowRight")
    assert page.inner_text("#panel-memory .detail h3") == "layers.0.silu.1"
    page.keyboard.press("ArrowLeft")
    assert page.inner_text("#panel-memory .detail h3") == "cast.1"


def test_slash_searches(open_page: Open) -> None:
    page = open_page()
    page.keyboard.press("/")
    page.keyboard.type("layer_0 silu")
    assert page.get_attribute("#search", "aria-expanded") == "true"
    page.keyboard.press("Enter")
    assert page.inner_text(".graph-view .detail h3") == "%1 silu"
    assert page.get_attribute("#tab-graph", "aria-selected") == "true"


def test_a_broken_pass_stands_out(open_page: Open) -> None:
    page = open_page("#accuracy")
    assert page.inner_text("#panel-accuracy p.error") == (
        "First broken pass: decode / fuse (1 of 1)"
    )
    assert page.inner_text("#panel-accuracy section tr.bad").split() == [
        "layers.0",
        "2.00e-6",
        "1.00e-7",
        "1.00e-6",
    ]
    page.click("#panel-accuracy a:has-text('@layer_0 %1 silu')")
    assert page.inner_text(".graph-view .detail h3") == "%1 silu"


def test_markup_in_a_dump_stays_text(open_page: Open, tmp_path: Path) -> None:
    dump = write_small_dump(tmp_path)
    poison(dump)
    page = open_page(dump=dump)
    for number, name in enumerate(TABS, start=1):
        page.keyboard.press(str(number))
        page.wait_for_selector(f"#panel-{name}:not([hidden])")
        assert page.query_selector("img") is None
    page.keyboard.press("4")
    page.wait_for_selector(".cpp")
    assert NASTY.split("\u2028")[0] in page.inner_text(".cpp")


@pytest.mark.parametrize("address", ["#graph/%", "#nowhere/1/2", "#passes/none/99", "#kernels/x/y"])
def test_odd_addresses_lead_somewhere(open_page: Open, address: str) -> None:
    page = open_page(address)
    assert page.query_selector("[role=tabpanel]:not([hidden])") is not None
