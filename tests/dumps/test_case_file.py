"""Numbers of a case come back with all their bits, through a file that people can read."""

from pathlib import Path
from tempfile import TemporaryDirectory

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.graph import GraphBuilder
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
