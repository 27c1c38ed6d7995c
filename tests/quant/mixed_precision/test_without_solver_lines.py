"""What the solver prints by itself does not stand among the results of a command."""

import ctypes
import os
import subprocess
import sys
from types import SimpleNamespace
from typing import Any

import pytest

from ascendfx.quant_passes.mixed_precision import best_choices as module
from ascendfx.quant_passes.mixed_precision.best_choices import Limit, best_choices
from ascendfx.quant_passes.mixed_precision.without_solver_lines import without_solver_lines

LINE = b"HighsMipSolverData::transformNewIntegerFeasibleSolution tmpSolver.run();"
LIBC = ctypes.CDLL(None)


def test_the_solver_is_silent(
    monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    optimize, sparse = module._solver()  # pyright: ignore[reportPrivateUsage]

    def milp(*given: Any, **options: Any) -> Any:
        LIBC.puts(LINE)
        return optimize.milp(*given, **options)

    talking = SimpleNamespace(**vars(optimize) | {"milp": milp})
    monkeypatch.setattr(module, "_solver", lambda: (talking, sparse))
    assert best_choices([[0.0, 1.0]], [Limit("bytes", [[2.0, 1.0]], 1)]) == (1,)
    LIBC.fflush(None)
    assert capfd.readouterr().out == ""


def test_other_lines_come_out(capfd: pytest.CaptureFixture[str]) -> None:
    LIBC.puts(b"before")
    with without_solver_lines():
        os.write(1, b"of another thread\n")
        LIBC.puts(LINE)
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "before\nof another thread\nafter\n"


def test_a_failure_gives_the_output_back(capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(KeyboardInterrupt), without_solver_lines():
        raise KeyboardInterrupt
    os.write(1, b"after\n")
    assert capfd.readouterr().out == "after\n"


def test_standard_output_may_be_closed() -> None:
    name = without_solver_lines.__module__
    code = f"import os; os.close(1)\nfrom {name} import *\nwith without_solver_lines(): pass"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, check=False)
    assert (done.returncode, done.stderr) == (0, b"")
