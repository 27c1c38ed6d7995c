"""Write the page of a dump."""

import base64
import hashlib
import json
import zlib
from importlib.resources import files
from pathlib import Path
from typing import Any

from jinja2 import Environment, StrictUndefined
from markupsafe import Markup

from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.engine.metrics import Metrics
from ascendfx.runtime.replaced_file import replacing
from ascendfx.runtime.report.acceptance_card import acceptance_card
from ascendfx.runtime.report.overview import overview
from ascendfx.runtime.report.page_data import kernel_texts, page_data
from ascendfx.runtime.report.read_whole_dump import WholeDump
from ascendfx.version import VERSION

TABS = ("overview", "passes", "graph", "kernels", "memory", "accuracy")
"""Parts of the page, in order."""
STYLES = ("style.css", "views.css", "narrow.css")
"""Files of the style, in the order in which they are joined; ``dark.css`` has other colours."""
SCRIPTS = (
    "dom.js",
    "lines.js",
    "diff_rows.js",
    "layered_layout.js",
    "module_tree.js",
    "source_panel.js",
    "highlight_cpp.js",
    "pan_zoom.js",
    "diff_table.js",
    "passes_view.js",
    "graph_parts.js",
    "graph_view.js",
    "kernel_detail.js",
    "kernels_view.js",
    "memory_view.js",
    "accuracy_view.js",
    "search_box.js",
    "start.js",
)
"""Files of the script, in the order in which they are joined."""


def write_page(dump: WholeDump, file: Path, metrics: Metrics | None = None) -> int:
    """Write the page under a temporary name, rename it, and return its size in bytes.

    Raises:
        GraphError: The place cannot be written.
    """
    text = page_text(dump, metrics).encode("utf-8")
    with writing(file), replacing(file) as temporary:
        temporary.write_bytes(text)
    return len(text)


def page_text(dump: WholeDump, metrics: Metrics | None = None) -> str:
    """Return the page: one HTML document that needs nothing else.

    Nothing of the dump is in the document as markup: the overview is escaped by the template, all
    the rest is base64, and the policy of the page runs no script but its own. Equal dumps give
    equal pages.

    Args:
        dump: What the page is about.
        metrics: What an engine has done with the plans; None: nothing is said of it.
    """
    environment = Environment(
        autoescape=True, undefined=StrictUndefined, keep_trailing_newline=True
    )
    data = page_data(dump)
    script = page_script()
    return environment.from_string(_read("page.html.j2")).render(
        version=VERSION,
        tabs=TABS,
        overview=overview(data),
        acceptance=acceptance_card(metrics) if metrics else None,
        style=Markup("\n".join(map(_read, STYLES))),  # noqa: S704  # our own files
        dark=Markup(_read("dark.css")),  # noqa: S704
        script=Markup(script),  # noqa: S704
        script_hash=base64.b64encode(hashlib.sha256(script.encode()).digest()).decode(),
        data=packed(data),
        kernel_texts=packed(kernel_texts(dump)),
    )


def page_script() -> str:
    """Return the script of the page: its files in one scope of their own."""
    return '(() => {\n"use strict";\n' + "\n".join(map(_read, SCRIPTS)) + "})();\n"


def packed(data: Any) -> str:
    """Return ``data`` as base64 of zlib of JSON."""
    text = json.dumps(data, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return base64.b64encode(zlib.compress(text.encode("utf-8", "surrogatepass"), 9)).decode("ascii")


def _read(name: str) -> str:
    return (files("ascendfx.runtime.report") / "page" / name).read_text(encoding="utf-8")
