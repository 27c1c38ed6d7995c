"""Emitted lines are at most 100 columns, and breaking them changes nothing but blanks."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.cpp_writer import CppWriter

_NAMES = st.from_regex(r"[a-z][a-z0-9]{0,9}", fullmatch=True)
_ARGUMENTS = st.one_of(
    _NAMES,
    st.tuples(_NAMES, _NAMES).map(lambda pair: f"{pair[0]}[{pair[1]} * 8 + 1]"),
    st.tuples(_NAMES, _NAMES).map(lambda pair: f"{pair[0]}({pair[1]}, 0)"),
)
_CALLS = st.tuples(_NAMES, st.lists(_ARGUMENTS, min_size=1, max_size=12)).map(
    lambda call: f"{call[0]}({', '.join(call[1])})"
)


def written(text: str, depth: int) -> str:
    out = CppWriter()
    out.line("    " * depth + text)
    return out.text()


@given(_CALLS, st.integers(0, 3), st.sampled_from(("{};", "const int x = {};", "void {} {{")))
def test_a_broken_statement_keeps_its_tokens(call: str, depth: int, form: str) -> None:
    text = form.format(call)
    found = written(text, depth)
    assert "".join(found.split()) == "".join(text.split())
    lines = found.splitlines()
    assert all(len(line) <= 100 for line in lines)
    assert all(not line.endswith(" ") for line in lines)


@given(st.lists(_NAMES, min_size=1, max_size=40), st.integers(0, 3))
def test_a_broken_comment_keeps_its_words(words: list[str], depth: int) -> None:
    lines = written("// " + " ".join(words), depth).splitlines()
    assert all(line.lstrip().startswith("// ") and len(line) <= 100 for line in lines)
    assert [word for line in lines for word in line.lstrip()[3:].split()] == words


@pytest.mark.parametrize(
    ("name", "lines"),
    [("short", 1), ("a" * 40, 2)],
)
def test_a_long_signature_goes_on_below_its_bracket_or_its_name(name: str, lines: int) -> None:
    parameters = ", ".join(f"GM_ADDR {each}" for each in ("x", "w", "y"))
    head = f'extern "C" __global__ __aicore__ void {name}({parameters}) {{'
    found = written(head, 0).splitlines()
    assert len(found) == lines
    assert all(len(line) <= 100 for line in found)
    assert lines == 1 or found[1] == f"        {parameters}) {{"
