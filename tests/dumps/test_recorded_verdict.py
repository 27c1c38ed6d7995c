"""What a compilation compared and what it found is said at once; so is what it did not compare."""

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.verification.verify_pass import PassCheck, PassError, WorstPlace
from ascendfx.runtime.cli.compile_command import not_compared
from ascendfx.runtime.dumps.read_dump import read_dump
from ascendfx.runtime.dumps.recorded_verdict import recorded_verdict
from tests.dumps.planted_dump import dump_with

ERROR = {"max": 0.0, "rms": 0.0}


def _all_measured(number: int) -> dict[str, Any]:
    return {"error": ERROR, "broken": None}


def _first_measured(number: int) -> dict[str, Any]:
    return {"error": ERROR if number < 3 else None, "broken": None}


def _third_broken(number: int) -> dict[str, Any]:
    return {"error": ERROR, "broken": "logits moved by 3" if number == 2 else None}


@pytest.mark.parametrize(
    ("recorded", "says"),
    [
        (lambda _: {}, "nothing was compared while compiling"),
        (_all_measured, "all {} passes were compared while compiling, none broke its fidelity"),
        (_first_measured, "3 of {} passes were compared while compiling, none broke its fidelity"),
        (_third_broken, "pass `{name}` of stage serving broke its fidelity: logits moved by 3"),
    ],
)
def test_the_verdict_of_a_dump(
    recorded: Callable[[int], dict[str, Any]], says: str, tmp_path: Path
) -> None:
    dump_with("half_doubled", tmp_path)
    count, names = 0, list[str]()
    for stage in read_dump(tmp_path).header.stages:
        index = tmp_path / stage / "index.json"
        if not index.is_file():
            continue
        entries = json.loads(index.read_text(encoding="utf-8"))
        for each in entries:
            each.update(recorded(count))
            names.append(each["pass"])
            count += 1
        index.write_text(json.dumps(entries), encoding="utf-8")
    assert recorded_verdict(read_dump(tmp_path)) == says.format(count, name=names[2])


def test_what_a_verification_does_not_look_at_is_said() -> None:
    error = PassError(0.0, 0.0, 0.0, WorstPlace("", 0, "", ""))
    plain = PassCheck("serving", "simplify", Fidelity.BITWISE, error, 0.0)
    drawn = replace(plain, left_out=2)
    assert not_compared([plain]) == "not compared: lowering and kernels"
    assert not_compared([plain, drawn, drawn]) == (
        "not compared: 4 requests whose best logits are nearly equal, lowering and kernels"
    )
