"""What is left to PyTorch is told in a few lines, in full to who asks."""

import logging

import pytest
import torch

from ascendfx.runtime.torch_backend.remarks import remark, remarks, summed_up


def refuse_many() -> None:
    with summed_up():
        for i in range(300):
            remark(f"`mul_{i}`", "no-row-form", f"axis {i} of `mul` is mixed at model.py:{i}")
        for i in range(3):
            remark(f"`j_{i}`", "unknown-operation", f"no translation for `bessel_j0` at m.py:{i}")


def test_many_remarks_are_one_warning_by_reason(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "ascendfx"):
        refuse_many()
    (record,) = caplog.records
    assert record.levelno == logging.WARNING
    assert record.getMessage().splitlines() == [
        "303 parts of the graph run eagerly:",
        "  300 [no-row-form]: first `mul_0`: axis 0 of `mul` is mixed at model.py:0",
        "  3 [unknown-operation]: first `j_0`: no translation for `bessel_j0` at m.py:0",
        "[no-row-form] is expected for attention in a plain layer, whose products and softmax mix "
        "rows: it is a kernel only over caches, where it serves (ascendfx.compile)",
        "each of them: ascendfx.runtime.torch_backend.remarks.remarks(), or the logger `ascendfx` "
        "at DEBUG",
    ]
    assert len(remarks()) == 303


def test_one_remark_says_what_is_expected_and_others_do_not(
    caplog: pytest.LogCaptureFixture,
) -> None:
    with summed_up():
        remark("`bmm`", "no-row-form", "rows are mixed")
    assert "runs eagerly: rows are mixed [no-row-form]\n[no-row-form] is expected" in caplog.text
    caplog.clear()
    with summed_up():
        remark("`j`", "unknown-operation", "no translation for `bessel_j0`")
    assert "is expected" not in caplog.text


def test_each_remark_is_a_detail(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "ascendfx"):
        refuse_many()
    assert len(caplog.records) == 304
    assert "`mul_299` runs eagerly: axis 299" in caplog.text


def test_the_same_graph_once_more_says_nothing(caplog: pytest.LogCaptureFixture) -> None:
    refuse_many()
    caplog.clear()
    with caplog.at_level(logging.INFO, "ascendfx"):
        refuse_many()
    assert not caplog.records


def test_many_reasons_are_cut(caplog: pytest.LogCaptureFixture) -> None:
    with summed_up():
        for word in "abcdefghijkl":
            remark(f"`{word}`", "not-lowered", f"because of {word}")
    assert "  4 for 4 other reasons\n" in caplog.text


def test_a_compiled_graph_is_summed_up(caplog: pytest.LogCaptureFixture) -> None:
    def function(x: torch.Tensor) -> torch.Tensor:
        for _ in range(4):
            x = torch.special.bessel_j0(x)
        return x

    with torch.no_grad(), caplog.at_level(logging.INFO, "ascendfx"):
        torch.compile(function, backend="ascendfx")(torch.randn(3, 4))
    found = [each.getMessage() for each in caplog.records if each.name == "ascendfx"]
    assert len(found) == 1
    assert found[0].startswith("4 parts of the graph run eagerly:\n  4 [unknown-operation]: first ")
