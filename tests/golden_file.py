"""Checked-in expected output."""

from pathlib import Path

GOLDEN = Path(__file__).parent / "golden"


class Golden:
    """Compares text with a file under ``tests/golden`` that keeps its natural extension."""

    def __init__(self, *, update: bool) -> None:
        self._update = update

    def check(self, name: str, actual: str) -> None:
        """Assert that ``name`` holds ``actual``, or write it with ``--update-golden``."""
        path = GOLDEN / name
        if self._update:
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(actual, encoding="utf-8")
            return
        assert path.exists(), f"{path} is missing; review and add it with --update-golden"
        assert actual == path.read_text(encoding="utf-8"), f"{path} differs; see --update-golden"
