"""Faults of events, barriers and the ends of kernels, in static-tensor style."""

import numpy as np
import pytest

from ascendfx.codegen.ascendc.kernel import Kernel
from ascendfx.ir.tensor_type import DType
from ascendfx.runtime.emulator import EmulatorError
from tests.emulator.vector_kernel import make_kernel, result, run, source

N = 64

DOUBLE = f"""
InitSocState();
LocalTensor<float> x(TPosition::VECIN, 0, {N});
LocalTensor<float> y(TPosition::VECOUT, 256, {N});
DataCopy(x, xGm, {N});
SetFlag<HardEvent::MTE2_V>(0);
WaitFlag<HardEvent::MTE2_V>(0);
Add(y, x, x, {N});
SetFlag<HardEvent::V_MTE3>(1);
WaitFlag<HardEvent::V_MTE3>(1);
DataCopy(yGm, y, {N});
PipeBarrier<PIPE_ALL>();
"""

WAIT_IN = "WaitFlag<HardEvent::MTE2_V>(0);\n"
SET_IN = "SetFlag<HardEvent::MTE2_V>(0);\n"
SET_OUT = "SetFlag<HardEvent::V_MTE3>(1);\n"
WAIT_OUT = "WaitFlag<HardEvent::V_MTE3>(1);\n"
COPY_IN = f"DataCopy(x, xGm, {N});\n"
COPY_OUT = f"DataCopy(yGm, y, {N});\n"


def kernel(body: str) -> Kernel:
    return make_kernel("double_row", body, [source(DType.F32, "x", N), result(DType.F32, "y", N)])


def test_the_kernel_without_a_fault_doubles() -> None:
    x = np.arange(N, dtype=np.float32)
    (y,) = run(kernel(DOUBLE), x)
    np.testing.assert_array_equal(y, 2 * x)


@pytest.mark.parametrize(
    ("old", "new", "kind", "text"),
    [
        (SET_IN, "", "event", "WaitFlag<MTE2_V>(0): nothing has set it"),
        (WAIT_IN, "", "race", "Add (V) reads UB byte 0, which MTE2 DataCopy in line"),
        (SET_IN, SET_IN * 2, "event", "SetFlag<MTE2_V>(0): already set in line"),
        (SET_IN, SET_IN + "SetFlag<HardEvent::V_MTE2>(3);\n", "event", "is never waited for"),
        ("MTE2_V>(0)", "MTE2_V>(6)", "event", "event id 6 belongs to the system"),
        ("MTE2_V>(0)", "MTE2_V>(8)", "event", "event id 8 is not in 0..7"),
        ("MTE2_V>(0)", "MTE2_MTE1>(0)", "event", "a vector core has no such pipe"),
        (WAIT_OUT, "", "race", "DataCopy (MTE3) reads UB byte 256, which V Add in line"),
        (SET_OUT + WAIT_OUT, "", "race", "no V_MTE3 event"),
        ("PipeBarrier<PIPE_ALL>();\n", "", "barrier", "must end with PipeBarrier<PIPE_ALL>()"),
        (COPY_OUT, COPY_OUT * 2, "race", "PipeBarrier<PIPE_MTE3>"),
        (COPY_IN, COPY_IN * 2, "race", "no PipeBarrier<PIPE_MTE2> or other barrier between"),
        (COPY_OUT, COPY_OUT + f"Duplicate(y, 0.0f, {N});\n", "race",
         "V) writes UB byte 256, which MTE3"),
        (SET_OUT, f"{COPY_IN}{SET_OUT}", "race", "DataCopy (MTE2) writes UB byte 0"),
        (f"Add(y, x, x, {N});\n", "", "poison", "UB byte 256, which was never written"),
        (f"Add(y, x, x, {N});", f"Add(y, x, x, {N - 1});", "poison", "reads UB byte 508"),
        ("PipeBarrier<PIPE_ALL>", "PipeBarrier<PIPE_M>", "arguments", "vector core has no pipe M"),
    ],
)  # fmt: skip
def test_fault(old: str, new: str, kind: str, text: str) -> None:
    assert old in DOUBLE
    with pytest.raises(EmulatorError) as caught:
        run(kernel(DOUBLE.replace(old, new)), np.ones(N, np.float32))
    assert caught.value.kind == kind
    assert text in caught.value.text


def test_a_barrier_on_the_pipe_orders_copies_to_one_place() -> None:
    twice = f"{COPY_IN}PipeBarrier<PIPE_MTE2>();\n{COPY_IN}"
    (y,) = run(kernel(DOUBLE.replace(COPY_IN, twice)), np.ones(N, np.float32))
    assert np.all(y == 2)


def test_order_through_a_third_pipe_counts() -> None:
    """V waits for MTE3, and MTE2 for V: so MTE2 comes after MTE3 as well."""
    extra = (
        "SetFlag<HardEvent::MTE3_V>(2);\nWaitFlag<HardEvent::MTE3_V>(2);\n"
        "SetFlag<HardEvent::V_MTE2>(2);\nWaitFlag<HardEvent::V_MTE2>(2);\n"
        f"LocalTensor<float> again(TPosition::VECIN, 256, {N});\nDataCopy(again, xGm, {N});\n"
    )
    (y,) = run(kernel(DOUBLE.replace(COPY_OUT, COPY_OUT + extra)), np.ones(N, np.float32))
    assert np.all(y == 2)


def test_scalar_accesses_are_ordered_by_the_compiler_on_vector_cores() -> None:
    body = DOUBLE.replace(WAIT_OUT, f"{WAIT_OUT}y.SetValue(3, x.GetValue(5) + y.GetValue(3));\n")
    (y,) = run(kernel(body), np.arange(N, dtype=np.float32))
    assert y[3] == 5 + 6


def test_allocated_ids_of_a_pipe_are_distinct_and_run_out() -> None:
    body = (
        "TPipe pipe;\nfor (int i = 0; i < 9; ++i) {\n"
        "GetTPipePtr()->AllocEventID<HardEvent::MTE2_V>();\n}\n"
    )
    with pytest.raises(EmulatorError, match="all 8 event ids of MTE2_V are in use"):
        run(kernel(body), np.ones(N, np.float32))
