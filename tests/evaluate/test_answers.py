"""What tasks make of scores and of answers."""

import os
from contextlib import suppress
from fractions import Fraction
from math import log
from pathlib import Path
from select import select

import numpy as np
import pytest

from ascendfx.ir.location import UNKNOWN
from ascendfx.runtime.evaluate.choice import MultipleChoice
from ascendfx.runtime.evaluate.code import Code
from ascendfx.runtime.evaluate.garbled import fails, faults
from ascendfx.runtime.evaluate.mathematics import final_number
from ascendfx.runtime.evaluate.measure import cut
from ascendfx.runtime.evaluate.question import QuestionAnswering, f1, words
from ascendfx.runtime.evaluate.run_program import CodeLimits, run_program
from ascendfx.runtime.evaluate.sample import Part, Sample
from ascendfx.runtime.evaluate.task import Answer
from ascendfx.runtime.evaluate.token_scores import ModelScores, TokenScores

LIMITS = CodeLimits(seconds=1, memory_bytes=512 << 20, file_bytes=1000)


def told(*logarithms: float) -> ModelScores:
    none = np.zeros(len(logarithms) + 1)
    return ModelScores(np.array(logarithms), none.astype(np.int64), none)


def choice(right: int, *parts: Part) -> Sample:
    return Sample("choice", UNKNOWN, "?", "?", parts, right)


def test_the_likeliest_choice_is_taken_and_length_is_taken_out_if_wanted() -> None:
    """The short one is likelier as a whole, the long one per character."""
    sample = choice(1, Part((1, 2, 3), 2, 2), Part((1, 2, 3, 4, 5), 2, 12))
    short, long = told(-9.0, log(0.3)), told(-1.0, log(0.5), log(0.5), log(0.5))
    scores = [TokenScores(short, long), TokenScores(long, short)]
    found = MultipleChoice().sums(sample, [TokenScores(short), TokenScores(long)])
    assert found == {"right": 0.0, "right per character": 1.0}
    both = MultipleChoice().sums(choice(0, *sample.parts[:1], Part((1, 2, 3), 2, 2)), [
        TokenScores(told(0, -1.0), told(0, -2.0)), TokenScores(told(0, -2.0), told(0, -1.0))
    ])  # fmt: skip
    assert (both["right"], both["float right"], both["same"]) == (1.0, 0.0, 0.0)
    assert len(scores) == 2


@pytest.mark.parametrize(
    ("answer", "known", "exact", "share"),
    [
        ("The Cat.", ("a cat",), 1.0, 1.0),
        ("  CAT  ", ("dog", "cat!"), 1.0, 1.0),
        ("a big cat", ("big dog",), 0.0, 0.5),
        ("dog", ("cat",), 0.0, 0.0),
        ("", ("cat",), 0.0, 0.0),
        ("北京 市", ("北京市",), 1.0, 1.0),
        ("北京", ("北京市",), 0.0, 0.8),
        ("3 %", ("3",), 1.0, 1.0),
    ],
)
def test_answers_in_words(answer: str, known: tuple[str, ...], exact: float, share: float) -> None:
    sample = Sample("qa", UNKNOWN, "?", "?", (Part((1,)),), texts=known)
    sums, _ = QuestionAnswering().judge(sample, Answer(answer, (1,)))
    assert sums == {"exact": exact, "f1": pytest.approx(share)}
    assert f1(words(answer), words(known[0])) == f1(words(known[0]), words(answer))


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("so there are 3 + 4 = 7 apples.", Fraction(7)),
        ("#### 1,200", Fraction(1200)),
        ("it is 12 #### 5\nand then 9", Fraction(5)),
        (r"so \boxed{-\frac{1}{2}}", Fraction(-1, 2)),
        (r"so \boxed{\frac{1}{2}} of 4", Fraction(1, 2)),
        ("The answer is $3.50, which is 2 more", Fraction(7, 2)),
        ("minus \u22128", Fraction(-8)),
        ("1/3", Fraction(1, 3)),
        ("1/0", None),
        ("room B12 and v1.2.3", None),
        ("none", None),
        ("", None),
        ("10-3", Fraction(3)),
    ],
)
def test_the_final_number(text: str, number: Fraction | None) -> None:
    assert final_number(text) == number


def test_answers_end_at_the_first_stop() -> None:
    assert cut("one\ntwo\n\nthree", ("\n\n", "two")) == "one\n"
    assert cut("one", ("\n",)) == "one"


def code_sample(tests: str) -> Sample:
    return Sample("code", UNKNOWN, "?", "?", (Part((1,)),), texts=("def f():\n", tests))


def test_nothing_is_executed_unless_it_is_asked_for(tmp_path: Path) -> None:
    mark = tmp_path / "mark"
    sample = code_sample(f"open({str(mark)!r}, 'w')")
    assert Code().judge(sample, Answer("    return 1", (1,))) == ({"parses": 1.0}, "")
    assert Code().judge(sample, Answer("    return (", (1,))) == ({"parses": 0.0}, "")
    assert not mark.exists()
    assert Code(LIMITS).judge(sample, Answer("    return 1", (1,)))[0] == {
        "parses": 1.0,
        "passed": 1.0,
    }
    assert mark.exists()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("assert 1 == 2, 'no'", "AssertionError: no"),
        ("while True: pass", "no end after"),
        ("x = bytearray(1 << 30)", "MemoryError"),
        ("f = open('big', 'wb'); f.write(b'x' * 20000); f.flush()", "File too large"),
        ("import os; assert 'PYTHONPATH' in os.environ, 'clean'", "AssertionError: clean"),
        ("raise SystemExit(3)", "ended with 3"),
        ("print('\\udcff'); (", "SyntaxError"),
    ],
)
def test_programs_are_told_what_stopped_them(text: str, why: str) -> None:
    passed, told_why = run_program(text, LIMITS)
    assert not passed
    assert why in told_why


def test_what_a_program_starts_ends_with_it(tmp_path: Path) -> None:
    pid = tmp_path / "pid"
    text = (
        "import subprocess, sys\n"
        "child = subprocess.Popen([sys.executable, '-c', 'import time; time.sleep(600)'])\n"
        f"open({str(pid)!r}, 'w').write(str(child.pid))\n"
    )
    assert run_program(text, CodeLimits(memory_bytes=512 << 20)) == (True, "")
    with suppress(ProcessLookupError):  # it is gone already
        ended = os.pidfd_open(int(pid.read_text(encoding="utf-8")))
        select([ended], [], [])  # it would sleep for ten minutes
        os.close(ended)


@pytest.mark.parametrize(
    ("prompt", "text", "ids", "found"),
    [
        ("Once upon", "there was a small house by the sea", range(20), []),
        ("Once upon", "x", [5, 6, 7, 8, *[1, 2] * 8], ["repetition"]),
        ("Once upon", "aaaa", [7] * 20, ["repetition", "low entropy"]),
        ("Once upon", "", [], ["empty"]),
        ("Once upon", "a\ufffdb\ufffdc and so on", range(20), ["not utf-8"]),
        ("Once upon", "a cut character \ufffd\ufffd", range(20), []),
        ("Once upon a time", "в доме жил старик", range(20), ["other script"]),
        ("Once upon a time", "was a small старик", range(20), []),
        ("いつかの日本の家", "漢字漢字漢字漢字漢字", range(20), []),
        ("half наполовину x", "в доме жил старик", range(20), []),
        ("Once upon a time", "7 8 9 10 11 12", range(20), []),
    ],
)
def test_what_is_no_text(prompt: str, text: str, ids: list[int], found: list[str]) -> None:
    assert faults(prompt, text, list(ids)) == found


@pytest.mark.parametrize(
    ("own", "truth", "failed"),
    [(0.05, None, False), (0.2, None, True), (0.5, 0.45, False), (0.6, 0.45, True)],
)
def test_garbled_answers_fail_beside_the_float_model(
    own: float, truth: float | None, *, failed: bool
) -> None:
    figures = {"garbled": own} | ({} if truth is None else {"float garbled": truth})
    assert fails(figures) is failed
