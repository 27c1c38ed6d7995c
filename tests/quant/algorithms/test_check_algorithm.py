"""The checks of algorithms: ours pass all, and each finds what it is for."""

from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from ascendfx import quantization as q
from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.algorithms import registry
from ascendfx.quant_passes.algorithms.min_max import MIN_MAX
from ascendfx.quant_passes.algorithms.registry import ALGORITHMS
from ascendfx.quant_passes.algorithms.weight_algorithm import QuantizedWeight, WeightSpec
from ascendfx.quant_passes.formats.integer import Integer
from ascendfx.quant_passes.scaling.affine import Affine
from ascendfx.quant_passes.scaling.granularity import PerChannel, PerGroup
from ascendfx.quant_passes.scaling.quantized_tensor import QuantizedTensor
from ascendfx.quant_passes.scaling.scale_rule import FULL_RANGE, ScaleRule
from ascendfx.quant_passes.statistics import without_tokens

FOLDER = Path(registry.__file__).parent


@pytest.fixture(autouse=True)
def _own_registry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "_REGISTERED", {})


UNSIGNED = WeightSpec(Integer(4, signed=False), PerGroup(16))
SPECS = (
    WeightSpec(Integer(4), PerGroup(16)),
    WeightSpec(Integer(4), PerGroup(16), ScaleRule(symmetric=False)),
    UNSIGNED,
    WeightSpec(
        Integer(3), PerChannel(), ScaleRule(symmetric=False, round_zero=False, zero_first=True)
    ),
    WeightSpec(Integer(8, narrow=True), PerChannel(), FULL_RANGE),
)
CASES = [
    pytest.param(each, spec, id=f"{each.name}-{spec.format.name}-{spec.rule.symmetric}")
    for each in (
        *ALGORITHMS.values(),
        q.Gptq(act_order=False, groups="dynamic"),
        q.Ssz(weighted=True),
        q.Sszw(steps=5, starts=(q.Gptq(), q.MeanSquare(grid=5))),
        q.LookupTable(weighted=False),
    )
    for spec in ((UNSIGNED,) if each.name == "qserve" else SPECS)
]


ANY_FORMAT = ("gptq", "mean_square", "min_max", "percentile")


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("form", [q.NF4, q.E4M3FN(), q.HiFloat8()], ids=lambda form: form.name)
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_formats_without_integer_codes(name: str, form: q.Format) -> None:
    spec = WeightSpec(form, PerGroup(16))
    if name in ANY_FORMAT or (name == "lookup_table" and form.bits == 4):
        q.check_algorithm(q.algorithm_named(name), spec)
    elif name != "lookup_table":
        with pytest.raises(GraphError, match="moves the scales of integer codes") as refused:
            q.algorithm_named(name).quantize(np.ones((2, 32)), spec, without_tokens(32))
        assert refused.value.code == "bad-format"


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_formats_with_scales_of_their_own_are_refused(name: str) -> None:
    spec = WeightSpec(q.HiFloat4(), PerChannel())  # pyright: ignore[reportArgumentType]
    known = q.statistics_of(np.random.default_rng(0).standard_normal((300, 64)))
    with pytest.raises(GraphError) as refused:
        q.algorithm_named(name).quantize(np.ones((2, 64)), spec, known)
    assert refused.value.code == "bad-format"


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize(("algorithm", "spec"), CASES)
def test_ours_pass(algorithm: q.WeightAlgorithm, spec: WeightSpec) -> None:
    q.check_algorithm(algorithm, spec)


def test_every_algorithm_has_a_file_of_its_name_and_a_row_in_the_readme() -> None:
    told = (FOLDER.parent / "README.md").read_text(encoding="utf-8")
    for name in ALGORITHMS:
        assert (FOLDER / f"{name}.py").exists()
        assert f"| `{name}` |" in told


@pytest.mark.parametrize("shape", [(0, 32), (3, 0)])
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_empty_weights(name: str, shape: tuple[int, int]) -> None:
    known = without_tokens(shape[1])
    tensor = q.algorithm_named(name).quantize(np.zeros(shape), UNSIGNED, known).tensor
    assert tensor.decode().shape == shape
    assert tensor.squared_error(np.zeros(shape)) == 0


@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_groups_that_do_not_divide_a_row_are_refused(name: str) -> None:
    weight = np.random.default_rng(0).standard_normal((4, 32))
    known = q.statistics_of(np.random.default_rng(1).standard_normal((200, 32)))
    spec = replace(UNSIGNED, granularity=PerGroup(20))
    with pytest.raises(GraphError, match="groups of 20 do not divide the last axis") as refused:
        q.algorithm_named(name).quantize(weight, spec, known)
    assert refused.value.code == "bad-granularity"
    assert "did you mean one of 4, 8, 16, 32" in str(refused.value)


@pytest.mark.parametrize("bad", [np.nan, -np.inf])
@pytest.mark.parametrize("name", sorted(ALGORITHMS))
def test_damaged_weights_are_one_clear_error(name: str, bad: float) -> None:
    weight = np.ones((4, 32), np.float32)
    weight[2, 7:9] = bad
    told = r"2 of 128 weights are infinite or not numbers; the first is \[2, 7\]"
    with pytest.raises(GraphError, match=told) as refused:
        q.algorithm_named(name).quantize(weight, UNSIGNED, without_tokens(32))
    assert refused.value.code == "values-not-finite"


@dataclass(frozen=True, slots=True)
class Other:
    """Min-max with one part exchanged."""

    then: Callable[[Any, Any, Any], Any] | None = None
    name: str = "other"
    needs: frozenset[str] = frozenset()

    def quantize(self, weight: Any, spec: WeightSpec, inputs: Any = None) -> QuantizedWeight:
        if self.then is None:
            return MIN_MAX.quantize(weight, spec)
        return self.then(weight, spec, inputs)


def _scaled(weight: Any, spec: WeightSpec, _: Any) -> QuantizedWeight:
    tensor: Any = MIN_MAX.quantize(weight, spec).tensor
    affine = replace(tensor.affine, scale=tensor.affine.scale * 1.5)
    return QuantizedWeight(QuantizedTensor(tensor.codes, affine, tensor.format))


class _Random:
    def __init__(self) -> None:
        self.calls = 0

    def __call__(self, weight: Any, spec: WeightSpec, _: Any) -> QuantizedWeight:
        self.calls += 1
        return MIN_MAX.quantize(np.asarray(weight) * (1 + 0.1 * self.calls), spec)


def _spoiling(weight: Any, spec: WeightSpec, _: Any) -> QuantizedWeight:
    found = MIN_MAX.quantize(weight, spec)
    if np.isfinite(weight).all():
        weight *= 0.5
    return found


def _no_rows(weight: Any, spec: WeightSpec, _: Any) -> QuantizedWeight:
    return MIN_MAX.quantize(np.asarray(weight)[1:], spec)


def _replacing(weight: Any, spec: WeightSpec, _: Any) -> QuantizedWeight:
    return MIN_MAX.quantize(np.nan_to_num(np.asarray(weight).reshape(-1, 32)), spec)


def _needing_tokens(weight: Any, spec: WeightSpec, inputs: Any) -> QuantizedWeight:
    if not inputs.tokens:
        raise GraphError("bad-statistics", "no tokens", hint="give some")
    return MIN_MAX.quantize(weight, spec)


def _never_zero(weight: Any, spec: WeightSpec, _: Any) -> QuantizedWeight:
    tensor: Any = MIN_MAX.quantize(weight, spec).tensor
    codes = np.where(tensor.codes == 0, 1, tensor.codes).astype(np.int8)
    return QuantizedWeight(QuantizedTensor(codes, tensor.affine, tensor.format))


@dataclass(frozen=True, slots=True, eq=False)
class _Lying:
    tensor: QuantizedTensor
    bytes: int = 1

    @property
    def shape(self) -> tuple[int, ...]:
        return self.tensor.shape

    def decode(self, *_: Any) -> Any:
        return self.tensor.decode()

    def squared_error(self, of: Any) -> float:
        return 0.5 * self.tensor.squared_error(of)


def _lying(weight: Any, spec: WeightSpec, _: Any) -> QuantizedWeight:
    tensor: Any = MIN_MAX.quantize(weight, spec).tensor
    return QuantizedWeight(_Lying(tensor))  # pyright: ignore[reportArgumentType]


WRONG = {
    "a name that is empty": (Other(name=""), "declaration: the name is ''"),
    "unknown needs": (Other(needs=frozenset({"hessian"})), "declaration: needs hessian; known"),
    "no result": (Other(lambda *_: None), "result: raises TypeError"),
    "rows left out": (Other(_no_rows), "result: [6, 32] becomes [5, 32]"),
    "scales too large": (Other(_scaled), "close: the output is off by"),
    "a lie on the error": (Other(_lying), "result: the squared error is told as"),
    "a second call": (Other(_Random()), "pure: a second call gives other numbers"),
    "a spoiled argument": (Other(_spoiling), "pure: the weight was changed"),
    "zeros become something": (Other(_never_zero), "degenerate: rows of zeros become"),
    "no tokens are an error": (
        Other(_needing_tokens, needs=frozenset({"moments"})),
        "degenerate: no tokens: bad-statistics",
    ),
    "NaN is replaced": (Other(_replacing), "refusals: NaN is taken"),
    "axes are merged": (Other(_replacing), "refusals: three axes is taken"),
    "statistics are not asked for": (
        Other(needs=frozenset({"moments"})),
        "refusals: missing statistics is taken",
    ),
}


@pytest.mark.parametrize("what", WRONG)
def test_each_check_finds_what_it_is_for(what: str) -> None:
    algorithm, told = WRONG[what]
    with pytest.raises(GraphError) as refused:
        q.check_algorithm(algorithm)
    assert refused.value.code == "algorithm-not-proved"
    assert any(note.startswith(told) for note in refused.value.notes), refused.value.notes


def test_what_is_no_algorithm_at_all() -> None:
    with pytest.raises(GraphError) as refused:
        q.check_algorithm(Affine)  # pyright: ignore[reportArgumentType]
    assert "lacks name, needs" in refused.value.notes[0]


@pytest.mark.parametrize(
    ("asked", "meant"),
    [("gtpq", "gptq"), ("RTN", "min_max"), ("mse", "mean_square"), ("min-max", "min_max")],
)
def test_names_that_are_near(asked: str, meant: str) -> None:
    with pytest.raises(GraphError, match=f"no weight algorithm is called `{asked}`") as refused:
        q.algorithm_named(asked)
    assert refused.value.code == "algorithm-not-known"
    assert f"did you mean `{meant}`" in str(refused.value)


def test_algorithms_of_your_own() -> None:
    mine = Other(name="mine-of-this-test")
    assert q.register_algorithm(mine) is q.algorithm_named("mine-of-this-test")
    q.register_algorithm(mine)
    with pytest.raises(GraphError) as refused:
        q.register_algorithm(Other(lambda w, s, _: MIN_MAX.quantize(w, s), name="gptq"))
    assert refused.value.code == "algorithm-name-taken"
    with pytest.raises(GraphError) as refused:
        q.register_algorithm(Other(_scaled, name="wrong"))
    assert refused.value.code == "algorithm-not-proved"
