"""Who tries the commands of the README in a clone does not find their files in `git status`."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[1]
_WRITTEN = re.compile(r"(?:-o|--dump-dir|--metrics) ([\w./]+)|\.save\(\"([\w./]+)\"\)|> ([\w./]+)$")


def _outputs() -> set[str]:
    found: set[str] = set()
    for file in (_ROOT / "README.md", _ROOT / "examples" / "README.md"):
        for line in file.read_text(encoding="utf-8").splitlines():
            command = line.startswith(("$ ", "engine."))
            pairs = _WRITTEN.findall(line) if command else []
            found |= {next(filter(None, each)).split("/")[0] for each in pairs}
    return found


def test_what_the_readme_writes_is_ignored_by_git() -> None:
    ignored = (_ROOT / ".gitignore").read_text(encoding="utf-8").split()
    outputs = _outputs()
    assert {"pkg", "dumps", "golden", "case.json"} <= outputs
    for name in (*sorted(outputs), "report.html", "out"):
        assert f"/{name}" in ignored or f"/{name}/" in ignored, name
