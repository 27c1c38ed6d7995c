"""A page made of names that could break it, and a reader of pages."""

import json
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

from tests.report.small_dump import write_kernel

VOID = {"meta", "link", "input", "br", "hr", "img"}
NASTY = "</script><img src=x onerror=alert(1)>\"'&amp;{{7*7}}\u2028\u2029]]>--><!--🙂"
MODULE = "layers.<img/src=x/onerror=alert(1)>\"'"


class Document(HTMLParser):
    """Collects elements and the text inside each script; complains about crossed tags."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.words: list[str] = []
        self.feed(text)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))
        if tag == "script":
            self.scripts.append("")
        if tag not in VOID:
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        if self.open and self.open[-1] == "script":
            self.scripts[-1] += data
        else:
            self.words.append(data)


def poisoned(value: Any, keep: frozenset[str]) -> Any:
    """Return JSON with markup behind every text that is not under one of the keys ``keep``."""
    match value:
        case str():
            return value + NASTY
        case list():
            return [poisoned(each, keep) for each in value]
        case dict():
            return {
                key: each if key in keep else poisoned(each, keep) for key, each in value.items()
            }
        case _:
            return value


def poison(dump: Path) -> None:
    """Put markup into everything that a dump may say."""
    keep = frozenset({"file", "stages", "kernel", "name", "dtype", "place", "kind", "direction"})
    keep |= {"arguments", "results", "buffer"}
    for file in dump.rglob("*.json"):
        names = keep if file.name != "dump.json" else frozenset({"stages"})
        data = poisoned(json.loads(file.read_text(encoding="utf-8")), names)
        file.write_text(json.dumps(data), encoding="utf-8")
    for file in dump.rglob("*.ir"):
        text = file.read_text(encoding="utf-8")
        text = text.replace('"x"', f'"{NASTY}"').replace("in layers.0", f"in {MODULE}")
        file.write_text(text.replace("layers.0.w", NASTY.replace('"', "")), encoding="utf-8")
    kernel = dump / "decode" / "kernels" / "decode_silu.cpp"
    write_kernel(dump, kernel.read_text(encoding="utf-8") + NASTY)
