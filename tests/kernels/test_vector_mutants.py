"""Wrong versions of vector kernels are faults or wrong values in the emulator.

A mutant must give, for every number of rows, the bytes that the right kernel gives. Survivors are
changes that are no error; the folder ``excused_mutants`` lists each with its reason.
"""

import re
from pathlib import Path

import pytest

from ascendfx.runtime.emulator import BuiltKernel
from tests.kernels.excused_mutants import excused, files_of, wrong_excuses
from tests.kernels.text_mutants import Mutant, identities, text_mutants
from tests.kernels.vector_case import FEW_CORES, build, run
from tests.kernels.vector_mutant_cases import CASES, Case

QUICK = "write_cache"


def _wrong_excuses(name: str, case: Case) -> list[str]:
    right = [run(build(case.kernel), case.inputs, rows) for rows in case.rows]

    def check(built: BuiltKernel) -> None:
        for rows, expected in zip(case.rows, right, strict=True):
            for output, found in run(built, case.inputs, rows).items():
                # Not two long bytes in an assert: pytest would spend minutes on their difference.
                same = found.tobytes() == expected[output].tobytes()
                assert same, f"{output} differs"

    known = {line.strip() for line in case.known.splitlines()}
    mutants = tuple(
        m for m in text_mutants(case.kernel.source) if _compiles(m) and m.before not in known
    )
    return wrong_excuses(f"vector/{name}", case.kernel, check, FEW_CORES, mutants=mutants)


def _compiles(mutant: Mutant) -> bool:
    return not (mutant.kind == "wrong-field" and mutant.before.startswith("source.src"))


@pytest.mark.parametrize("name", CASES)
def test_every_excuse_is_of_a_mutant_of_the_kernel(name: str) -> None:
    assert set(excused(f"vector/{name}")) <= set(
        identities(text_mutants(CASES[name]().kernel.source))
    )


def test_every_file_of_excuses_is_of_a_kernel() -> None:
    assert files_of("vector") == set(CASES)


def test_every_kernel_that_can_be_emitted_is_in_a_table() -> None:
    """A family without mutants would be a hole that no run shows."""
    emitters = {
        name
        for file in (Path(__file__).parents[2] / "codegen/ascendc/kernels").rglob("*.py")
        for name in re.findall(r"(?m)^def (emit_\w+)\(", file.read_text())
    }
    tables = (
        "vector_mutant_cases.py",
        "chain_mutant_cases.py",
        "sampling_mutant_cases.py",
        "tree_mutant_cases.py",
        "test_cube_mutants.py",
        "test_attention_mutants.py",
    )
    used = "".join((Path(__file__).parent / name).read_text() for name in tables)
    assert emitters
    assert not {name for name in emitters if f"{name}(" not in used}


@pytest.mark.parametrize("name", [QUICK])
def test_every_mutant_is_noticed_or_excused(name: str) -> None:
    wrong = _wrong_excuses(name, CASES[name]())
    assert not wrong, "\n".join(wrong)


@pytest.mark.nightly
@pytest.mark.parametrize("name", sorted(CASES.keys() - {QUICK}))
def test_every_mutant_of_the_other_kernels_is_noticed_or_excused(name: str) -> None:
    wrong = _wrong_excuses(name, CASES[name]())
    assert not wrong, "\n".join(wrong)
