"""ir/README.md lists every operation, and its example parses."""

import re
from pathlib import Path

import pytest

from ascendfx.ir.ops import OPS
from ascendfx.ir.text.parser import parse_program
from ascendfx.ir.text.printer import print_program
from ascendfx.ir.verify import verify_program

_IR = Path(__file__).parents[2] / "ir"
_README = _IR / "README.md"
_TABLE = re.compile(r"(?s)(<!-- operations: [^\n]* -->\n).*(<!-- end of operations -->\n)")


def operation_table() -> str:
    rows = ["| mnemonic | operation |", "|---|---|"]
    for op in OPS:
        summary = (op.__doc__ or "").strip().split("\n\n", 1)[0]
        line = " ".join(summary.split()).replace("``", "`").replace("|", r"\|")
        rows.append(f"| `{op.mnemonic}` | {line} |")
    return "\n".join(rows) + "\n"


def test_every_operation_is_listed(request: pytest.FixtureRequest) -> None:
    text = _README.read_text(encoding="utf-8")
    expected = _TABLE.sub(lambda found: found[1] + operation_table() + found[2], text)
    if request.config.getoption("--update-golden"):
        _README.write_text(expected, encoding="utf-8")
    assert expected == _README.read_text(encoding="utf-8"), "run pytest with --update-golden"


def test_error_codes_are_sorted() -> None:
    section = _README.read_text(encoding="utf-8").split("## Error codes")[1]
    codes = re.findall(r"^\| `([a-z-]+)` \|", section, re.MULTILINE)
    assert codes == sorted(codes) != []


def test_the_example_of_the_text_form_is_a_program() -> None:
    text = _README.read_text(encoding="utf-8").split("```\n")[1]
    program = parse_program(text)
    verify_program(program)
    assert print_program(program) == text.split("\n", 1)[1]


def test_every_operation_has_a_one_line_definition() -> None:
    for op in OPS:
        first = (op.__doc__ or "").strip().split("\n\n", 1)[0]
        assert first.endswith((".", ":")), op.__name__
