"""Numbers of a case come back with all their bits, through a file that people can read."""

import json
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.graph import GraphBuilder
from ascendfx.ir.location import Location
from ascendfx.ir.ops import Input, Negate
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_type import DType, TensorType
from ascendfx.passes.describe_pass import describe_pass
from ascendfx.passes.reduction.case import Case, Observed
from ascendfx.passes.reduction.reduce_pass import Reduced
from ascendfx.passes.simplify import Simplify
from ascendfx.runtime.dumps.case_file import read_case, write_case

numbers = st.one_of(st.floats(allow_nan=False), st.just(np.nan), st.integers(-9, 9).map(float))


@given(st.lists(numbers, min_size=1, max_size=8))
def test_floats_come_back_bit_by_bit(values: list[float]) -> None:
    builder = GraphBuilder("negate")
    x = builder.add(Input("x", TensorType(DType.F64, (len(values),))))
    program = Program((builder.build(builder.add(Negate(), x)),))
    tensors = {"x": np.array(values), "i": np.array([[1, -3]]), "b": np.array([True, False])}
    case = Case(program, tensors, {}, None)
    rewrite = Simplify()
    reduced = Reduced(case, program, Observed(1.0, 0.5), rewrite)
    with TemporaryDirectory() as folder:
        file = Path(folder) / "case.json"
        write_case(file, reduced, describe_pass(rewrite), rewrite.fidelity, {})
        stored = read_case(file, file.read_text(encoding="utf-8"))
    for name, tensor in tensors.items():
        back = stored.case.tensors[name]
        assert back.dtype == tensor.dtype
        np.testing.assert_array_equal(back, tensor)
        if name == "x":
            np.testing.assert_array_equal(np.signbit(back), np.signbit(tensor))


def test_a_case_is_mailed_without_the_folders_of_its_maker(tmp_path: Path) -> None:
    builder = GraphBuilder("negate")
    with builder.at(Location(json.__file__, 7, "layers.0")):
        x = builder.add(Input("x", TensorType(DType.F64, (1,))))
        program = Program((builder.build(builder.add(Negate(), x)),))
    case = Case(program, {"x": np.array([1.0])}, {}, None)
    file = tmp_path / "case.json"
    reduced = Reduced(case, program, Observed(1.0, 0.5), Simplify())
    write_case(file, reduced, describe_pass(Simplify()), Simplify.fidelity, {})
    text = file.read_text(encoding="utf-8")
    assert str(Path(json.__file__).parent.parent) not in text
    stored = read_case(file, text)
    assert str(stored.case.program.main.nodes[1].location) == "json/__init__.py:7 in layers.0"


@pytest.mark.parametrize(
    ("path", "value"),
    [
        (("sizes", "batch"), float("inf")),
        (("sizes", "batch"), 1.5),
        (("sizes", "batch"), "3"),
        (("tokens",), [[1, float("inf")]]),
        (("tokens",), [[1.5]]),
        (("tokens",), [[10**30]]),
        (("tokens",), 3),
        (("tensors", "i", "shape"), [float("inf"), 2]),
        (("tensors", "i", "shape"), [1.0, 2]),
        (("tensors", "i", "values"), f"{10**30} 1"),
        (("before",), 1),
        (("pass", "fidelity"), []),
    ],
)
def test_numbers_that_are_none_are_a_damaged_case(
    path: tuple[str, ...], value: Any, tmp_path: Path
) -> None:
    builder = GraphBuilder("negate")
    x = builder.add(Input("x", TensorType(DType.F64, (1,))))
    program = Program((builder.build(builder.add(Negate(), x)),))
    tensors = {"x": np.array([1.0]), "i": np.array([[1, -3]])}
    case = Case(program, tensors, {"batch": 1}, None)
    reduced = Reduced(case, program, Observed(1.0, 0.5), Simplify())
    file = tmp_path / "case.json"
    write_case(file, reduced, describe_pass(Simplify()), Simplify.fidelity, {})
    data = json.loads(file.read_text(encoding="utf-8"))
    place = data
    for key in path[:-1]:
        place = place[key]
    place[path[-1]] = value
    with pytest.raises(GraphError, match=r"error\[damaged-case\]"):
        read_case(file, json.dumps(data))
