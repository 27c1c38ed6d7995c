"""Run passes in order, and remember what each one did."""

import json
import os
import time
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.text.printer import print_program
from ascendfx.passes.absorb_projections import AbsorbProjections
from ascendfx.passes.apply_rules import ApplyRules
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.drop_batch_axis import DropBatchAxis
from ascendfx.passes.drop_unused import DropUnused
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.graph_pass import PassResult, ProgramPass
from ascendfx.passes.hoist_transposes import HoistTransposes
from ascendfx.passes.narrow_repeated_inputs import NarrowRepeatedInputs
from ascendfx.passes.raise_operations import RaiseOperations
from ascendfx.passes.recognise_causal_mask import RecogniseCausalMask
from ascendfx.passes.rules import RULES
from ascendfx.passes.share_common import ShareCommon
from ascendfx.passes.share_key_heads import ShareKeyHeads
from ascendfx.passes.simplify import Simplify
from ascendfx.passes.split_attention_parts import SplitAttentionParts

RAISE: tuple[ProgramPass, ...] = (
    Simplify(),
    NarrowRepeatedInputs(),
    Simplify(),
    RaiseOperations(),
    RecogniseCausalMask(),
    HoistTransposes(),
    SplitAttentionParts(),
    ShareKeyHeads(),
    Simplify(),
)
"""From captured primitives to operations of the field, token-major."""

PASSES: Mapping[str, ProgramPass] = {
    each.name: each
    for each in (
        AbsorbProjections(),
        DeriveIncrementalForm(),
        DropBatchAxis(),
        DropUnused(),
        FoldWeights(),
        HoistTransposes(),
        NarrowRepeatedInputs(),
        RaiseOperations(),
        RecogniseCausalMask(),
        ShareCommon(),
        ShareKeyHeads(),
        Simplify(),
        SplitAttentionParts(),
    )
} | {rule.name: ApplyRules((rule,)) for rule in RULES}
"""Every pass and rule that `ascendfx opt` knows, with default parameters, by name."""


@dataclass(frozen=True, slots=True)
class PassRun:
    """One line of the pipeline report.

    Attributes:
        name: The pass.
        seconds: How long it took; never part of a result.
        statistics: Counts by name.
        remarks: Missed opportunities.
        program: The program after the pass; the object before it if nothing changed.
    """

    name: str
    seconds: float
    statistics: Mapping[str, int]
    remarks: tuple[str, ...]
    program: Program


def run_pipeline(
    program: Program, passes: Iterable[ProgramPass], *, dump_dir: Path | None = None
) -> tuple[Program, tuple[PassRun, ...]]:
    """Return the final program and one record per pass.

    With ``dump_dir``, ``00-input.ir`` and ``NN-<pass>.ir`` hold the program before and after each
    pass and ``index.json`` what each pass said; every file is complete as soon as it has its name.
    """
    if dump_dir is not None:
        dump_dir.mkdir(parents=True, exist_ok=True)
        _write(dump_dir / "00-input.ir", print_program(program))
    runs: list[PassRun] = []
    for each in passes:
        start = time.perf_counter()
        result = each.run(program)
        elapsed = time.perf_counter() - start
        _check_result(each.name, result)
        program = result.program
        runs.append(PassRun(each.name, elapsed, result.statistics, result.remarks, program))
        if dump_dir is not None:
            _dump(dump_dir, runs)
    return program, tuple(runs)


def _check_result(name: str, result: object) -> None:
    if not isinstance(result, PassResult) or not isinstance(result.program, Program):  # pyright: ignore[reportUnnecessaryIsInstance]
        found = result.program if isinstance(result, PassResult) else result
        raise GraphError(
            "pass-result",
            f"pass `{name}` returned `{type(found).__name__}`",
            hint="a pass returns PassResult(program), with the program it was given if nothing "
            "applied",
        )


def _dump(directory: Path, runs: list[PassRun]) -> None:
    name = f"{len(runs):02d}-{runs[-1].name}.ir"
    _write(directory / name, print_program(runs[-1].program))
    index = [
        {
            "file": f"{number:02d}-{run.name}.ir",
            "pass": run.name,
            "seconds": round(run.seconds, 6),
            "statistics": dict(run.statistics),
            "remarks": list(run.remarks),
        }
        for number, run in enumerate(runs, start=1)
    ]
    _write(directory / "index.json", json.dumps(index, indent=1) + "\n")


def _write(path: Path, text: str) -> None:
    temporary = path.with_name(f".{path.name}.{os.getpid()}")
    temporary.write_text(text, encoding="utf-8")
    temporary.replace(path)
