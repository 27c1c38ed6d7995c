"""Weights that are no numbers, or too large ones: an error that names them; never a wrong token."""

import os
import shutil
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Capacities
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.runtime.checkpoint.safetensors_file import StoredTensor, read_header
from ascendfx.runtime.compile_model import compile_model
from ascendfx.runtime.compiled_model import CompiledModel
from ascendfx.runtime.executor.step import Executor, StepInputs, StepOutputs
from ascendfx.runtime.materialise_weight import materialise_weight
from ascendfx.runtime.number_range import first_beyond, first_not_finite
from ascendfx.runtime.package.save_package import save_package
from ascendfx.runtime.start_engine import start_engine
from tests.bad_input.ended import LIMITS, WEIGHTS
from tests.engine.hosted_steps import HostedSteps

FORMATS = [np.float64, np.float32, np.float16, ml_dtypes.bfloat16, ml_dtypes.float8_e4m3fn]


@given(data=st.data(), dtype=st.sampled_from(FORMATS))
def test_the_first_place_out_of_range_is_found(data: st.DataObject, dtype: Any) -> None:
    shape = data.draw(arrays.array_shapes(min_dims=0, min_side=0, max_side=4))
    kind = f"u{np.dtype(dtype).itemsize}"
    array = data.draw(arrays.arrays(kind, shape)).view(dtype)  # any bits at all
    limit = float(np.array(data.draw(st.floats(0, 400)), dtype))
    wide = array.astype(np.float64)
    for found, good in (
        (first_not_finite(array), np.isfinite(wide)),
        (first_beyond(array, limit), np.abs(wide) <= limit),
    ):
        wrong = np.argwhere(~good)
        assert found == (tuple(wrong[0]) if len(wrong) else None)


def test_places_far_behind_are_counted_right() -> None:
    array = np.zeros((3, 1 << 20), np.float32)
    array[2, 5] = array[2, 9] = np.nan
    assert first_not_finite(array) == (2, 5)
    assert first_not_finite(np.zeros(3, np.int32)) is None


@pytest.fixture(scope="module")
def damageable(
    original: Path, traces: Path, tmp_path_factory: pytest.TempPathFactory
) -> tuple[CompiledModel, dict[str, StoredTensor]]:
    """Return a compiled model whose weights are a file that the test may change in place."""
    folder = tmp_path_factory.mktemp("numbers") / "model"
    shutil.copytree(original, folder)
    compiled = compile_model(folder, limits=LIMITS, trace_folder=traces)
    return compiled, read_header(folder / WEIGHTS)


@contextmanager
def with_number(tensor: StoredTensor, place: int, number: float) -> Iterator[None]:
    """Damage a file that the model has read, so that nothing but the number shows it."""
    offset = tensor.begin + place * tensor.format.itemsize
    times = tensor.file.stat()
    with tensor.file.open("r+b") as file:
        file.seek(offset)
        before = file.read(tensor.format.itemsize)
        file.seek(offset)
        file.write(np.array(number, tensor.format).tobytes())
    os.utime(tensor.file, ns=(times.st_atime_ns, times.st_mtime_ns))
    try:
        yield
    finally:
        with tensor.file.open("r+b") as file:
            file.seek(offset)
            file.write(before)
        os.utime(tensor.file, ns=(times.st_atime_ns, times.st_mtime_ns))


def save(compiled: CompiledModel, folder: Path) -> None:
    save_package(compiled, folder / "pkg")


USES: dict[str, Callable[[CompiledModel, Path], object]] = {
    "emulator": lambda compiled, folder: start_engine(compiled, kernel_cache=folder / "cache"),
    "reference": lambda compiled, _: start_engine(compiled, "reference"),
    "save": save,
}


@pytest.mark.parametrize("use", USES)
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), number=st.sampled_from([np.nan, np.inf, -np.inf]))
def test_a_weight_that_is_no_number_is_named_with_file_and_place(
    use: str,
    damageable: tuple[CompiledModel, dict[str, StoredTensor]],
    data: st.DataObject,
    number: float,
    tmp_path: Path,
) -> None:
    compiled, tensors = damageable
    name = data.draw(st.sampled_from(sorted(tensors)))
    tensor = tensors[name]
    place = data.draw(st.integers(0, int(np.prod(tensor.shape)) - 1))
    with (
        with_number(tensor, place, number),
        pytest.raises(GraphError, match=r"error\[not-finite\]") as caught,
    ):
        USES[use](compiled, tmp_path)
    shown = [int(each) for each in np.unravel_index(place, tensor.shape)]
    assert caught.value.reason == f"tensor `{name}` of {tensor.file} is {number} at {shown}"
    assert caught.value.hint
    assert not list(tmp_path.iterdir()), "kernels were built, or a package was begun"


@pytest.mark.parametrize("use", ["emulator", "save"])
@settings(max_examples=20, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(data=st.data(), number=st.sampled_from([2e19, -1e30, 3e38]))
def test_a_matrix_whose_products_overflow_is_named(
    use: str,
    damageable: tuple[CompiledModel, dict[str, StoredTensor]],
    data: st.DataObject,
    number: float,
    tmp_path: Path,
) -> None:
    compiled, tensors = damageable
    name = data.draw(st.sampled_from(sorted(n for n, t in tensors.items() if len(t.shape) > 1)))
    with (
        with_number(tensors[name], 0, number),
        pytest.raises(GraphError, match=r"error\[weight-range\]: weight ") as caught,
    ):
        USES[use](compiled, tmp_path)
    assert name in caught.value.reason
    assert f"{float(np.float32(number))} at [0" in caught.value.reason


def test_a_number_too_large_for_the_format_of_the_kernels_is_told_from_a_damaged_file(
    damageable: tuple[CompiledModel, dict[str, StoredTensor]],
) -> None:
    compiled, _ = damageable
    spec = next(each for each in compiled.weights if len(each.shape) == 1)
    (key,) = spec.keys
    values = np.full(spec.shape, 1.0)
    values[3] = 1e39
    with pytest.raises(GraphError) as caught:
        materialise_weight(spec, ArraySource({key: values}))
    assert caught.value.code == "weight-range"
    assert f"`{key}`, is inf at [3] in f32; the tensors of the checkpoint are finite" in str(
        caught.value
    )


class Overflowing:
    """Runs steps, and puts a number into the logits of one row from some step on."""

    def __init__(self, executor: Executor, number: float, plan: str, row: int) -> None:
        self._executor, self._number, self._plan, self._row = executor, number, plan, row

    def capacities(self, plan: str) -> Capacities:
        return self._executor.capacities(plan)

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        outputs = self._executor.run(plan, inputs)
        if plan != self._plan or outputs.logits.shape[0] <= self._row:
            return outputs
        logits: NDArray[Any] = outputs.logits.copy()
        logits[self._row, 0 if self._number else slice(None)] = self._number
        return replace(outputs, logits=logits)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, ml_dtypes.bfloat16])
@pytest.mark.parametrize("number", [np.nan, np.inf, -np.inf, 0.0])
@pytest.mark.parametrize(("plan", "row"), [("prefill", 0), ("decode", 0), ("decode", 1)])
def test_logits_without_meaning_end_the_run_and_name_the_prompt(
    number: float, plan: str, row: int, dtype: Any, compiled: CompiledModel
) -> None:
    engine = start_engine(compiled, "reference")
    right = engine.executor
    wanted = engine.generate([[1, 2], [3]], max_new_tokens=3)
    wrong = _Formatted(Overflowing(right, number, plan, row), dtype)
    engine.executor = HostedSteps(wrong, engine.config.block_tokens)
    with pytest.raises(GraphError) as caught:
        engine.generate([[1, 2], [3]], max_new_tokens=3)
    assert caught.value.code == "logits-overflow"
    found = f"the logit of token id 0 is {number}" if number else "all logits are zero"
    assert caught.value.reason == f"prompt {row}: {found} in a step of plan `{plan}`"
    engine.executor = right
    assert engine.generate([[1, 2], [3]], max_new_tokens=3) == wanted


class _Formatted:
    """Delivers logits in another format, as kernels do."""

    def __init__(self, executor: Executor, dtype: Any) -> None:
        self._executor, self._dtype = executor, dtype

    def capacities(self, plan: str) -> Capacities:
        return self._executor.capacities(plan)

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        outputs = self._executor.run(plan, inputs)
        return replace(outputs, logits=outputs.logits.astype(self._dtype))
