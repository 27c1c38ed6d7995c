"""A reduced case as one file that can be mailed and replayed anywhere."""

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from operator import index
from pathlib import Path
from typing import Any

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.text.located import parse_located, print_located
from ascendfx.ir.verify import verify_program
from ascendfx.passes.describe_pass import PassForm, describe_pass, restore_pass
from ascendfx.passes.graph_pass import Fidelity
from ascendfx.passes.reduction.case import FAILURES, Case, Observed, observe
from ascendfx.passes.reduction.reduce_pass import Reduced
from ascendfx.runtime.disk_error import writing
from ascendfx.runtime.dumps.json_file import write_json
from ascendfx.runtime.shown_error import shown_error
from ascendfx.version import VERSION

FORMAT = 1
_KIND = "ascendfx case"
_FORMATS = {"float": np.float64, "int": np.int64, "bool": np.bool_}


@dataclass(frozen=True)
class StoredCase:
    """What a case file holds.

    Attributes:
        form: How to make the pass again.
        fidelity: What the pass promised.
        case: The program before, with its values.
        after: The program that the pass made of it.
        observed: The difference that was recorded.
    """

    form: PassForm
    fidelity: Fidelity
    case: Case
    after: Program
    observed: Observed


@dataclass(frozen=True, slots=True)
class Replayed:
    """What a case shows here and now.

    Attributes:
        recorded: The difference of the stored programs; None if they agree here.
        present: The difference that the pass of this installation makes; None if it makes none.
        unknown: Why the pass could not be run; empty if it was.
    """

    recorded: Observed | None
    present: Observed | None
    unknown: str = ""


def write_case(
    file: Path, reduced: Reduced, form: PassForm, fidelity: Fidelity, origin: Mapping[str, Any]
) -> None:
    """Write a case.

    Args:
        file: Where.
        reduced: The case.
        form: The pass of the dump, for the case that it could not be run again.
        fidelity: What the pass promises.
        origin: Where the case comes from, for people.

    Raises:
        GraphError: The file cannot be written.
    """
    case = reduced.case
    form = describe_pass(reduced.rewrite) if reduced.rewrite else form
    data = {
        "kind": _KIND,
        "format": FORMAT,
        "ascendfx": VERSION,
        "origin": dict(origin),
        "pass": {**asdict(form), "fidelity": fidelity.value},
        "made_by_pass": reduced.rewrite is not None,
        "before": print_located(case.program, portable=True).splitlines(),
        "after": print_located(reduced.after, portable=True).splitlines(),
        "sizes": dict(case.sizes),
        "tokens": None if case.tokens is None else case.tokens.tolist(),
        "tensors": {name: _tensor(each) for name, each in case.tensors.items()},
        "observed": {"max": repr(reduced.observed.max), "bound": repr(reduced.observed.bound)},
    }
    with writing(file):
        write_json(file, data)


def read_case(file: Path, text: str) -> StoredCase:
    """Read a case from the text of a file.

    Raises:
        GraphError: The text is no case, of another version, or damaged.
    """
    try:
        data = json.loads(text)
    except (ValueError, RecursionError) as error:
        raise not_a_case(f"{file} is no case: it is no JSON: {error}") from error
    if not isinstance(data, dict) or data.get("kind") != _KIND:
        raise not_a_case(f"{file} is no case, but other JSON")
    if data.get("format") != FORMAT:
        raise GraphError(
            "case-version",
            f"{file} has format {data.get('format')}, this version reads {FORMAT}",
            hint="run `ascendfx reduce` again",
        )
    try:
        return _stored(file, data)
    except (LookupError, TypeError, ValueError, AttributeError, ArithmeticError) as error:
        raise GraphError(
            "damaged-case",
            f"{file} was edited or cut off: {shown_error(error)}",
            hint="run `ascendfx reduce` again",
        ) from error


def not_a_case(reason: str) -> GraphError:
    """Return the error for a file that no case can be read from."""
    return GraphError(
        "not-a-case",
        reason,
        hint="`ascendfx reduce DUMP -o FILE` writes one if a pass of the dump is at fault; if it "
        "finds no mistake, there is nothing to replay",
    )


def replay(stored: StoredCase, *, allow_code: bool = False) -> Replayed:
    """Compare the stored programs, and run the pass of this installation again.

    Args:
        stored: The case; it may come from anybody.
        allow_code: Import the module of a pass of others; see `restore_pass`.

    Raises:
        GraphError: The stored programs do not run.
    """
    try:
        recorded = observe(stored.case, stored.after, stored.fidelity)
    except FAILURES as error:
        if isinstance(error, GraphError):
            raise
        raise GraphError(
            "damaged-case",
            f"the stored programs do not run: {error!r}",
            hint="run `ascendfx reduce` again",
        ) from error
    try:
        rewrite = restore_pass(stored.form, allow_code=allow_code)
    except GraphError as error:
        return Replayed(recorded, None, f"{error.reason}\nhint: {error.hint}")
    try:
        after = rewrite.run(stored.case.program).program
        return Replayed(recorded, observe(stored.case, after, stored.fidelity))
    except FAILURES as error:
        return Replayed(recorded, None, f"pass `{rewrite.name}` fails on it: {error!r}")


def _stored(file: Path, data: Mapping[str, Any]) -> StoredCase:
    about = data["pass"]
    programs = [
        parse_located("\n".join(data[which]), file=f"{file}:{which}")
        for which in ("before", "after")
    ]
    verify_program(programs[0])  # the other one may be what a broken pass made
    tokens = data["tokens"]
    case = Case(
        programs[0],
        {str(name): _array(each) for name, each in data["tensors"].items()},
        {str(name): index(size) for name, size in data["sizes"].items()},
        None if tokens is None else np.array([list(map(index, row)) for row in tokens], np.int64),
    )
    observed = Observed(*(float(data["observed"][name]) for name in ("max", "bound")))
    form = PassForm(str(about["name"]), str(about["code"]), dict(about["parameters"]))
    return StoredCase(form, Fidelity(about["fidelity"]), case, programs[1], observed)


def _tensor(array: Array) -> dict[str, Any]:
    kind = {"f": "float", "b": "bool"}.get(array.dtype.kind, "int")
    values = " ".join(_number(each) for each in array.reshape(-1).tolist())
    return {"kind": kind, "shape": list(array.shape), "values": values}


def _number(value: float | bool) -> str:  # noqa: FBT001  # a number of an array
    return repr(int(value) if isinstance(value, bool) else value).removesuffix(".0")


def _array(data: Mapping[str, Any]) -> Array:
    words = str(data["values"]).split()
    dtype = _FORMATS[data["kind"]]
    numbers = [float(each) if dtype is np.float64 else int(each) for each in words]
    return np.array(numbers, dtype).reshape([index(size) for size in data["shape"]])
