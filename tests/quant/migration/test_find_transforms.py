"""What the search of transforms makes of statistics, seeds and metadata."""

import numpy as np
import pytest

from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import ArraySource
from ascendfx.ir.text.parser import parse_program
from ascendfx.quant_passes.migration.choices import Choices
from ascendfx.quant_passes.migration.find_transforms import Search, find_transforms
from ascendfx.quant_passes.migration.transform_set import read_metadata
from ascendfx.quant_passes.statistics import InputStatistics, statistics_of, without_tokens
from ascendfx.quant_passes.transforms.flex_smooth_quant import FlexSmoothQuant
from ascendfx.quant_passes.transforms.hadamard import hadamard_rotation

SEEN = np.array([[1.0, -8.0, 0.0, 2.0], [0.5, 4.0, 0.0, -1.0]])


def two_readers() -> Program:
    return parse_program(
        """graph @main {
  %0 = input "x" : f32[rows, 4]
  %1 = param "norm" : f32[4]
  %2 = param "query" : f32[6, 4]
  %3 = param "key" : f32[3, 4]
  %4 = rms_norm %0, %1 {eps=1e-06} : f32[rows, 4]
  %5 = linear %4, %2 : f32[rows, 6]
  %6 = linear %4, %3 : f32[rows, 3]
  return %5, %6
}
""",
        file="test.ir",
    )


def source() -> ArraySource:
    random = np.random.default_rng(1)
    return ArraySource(
        {
            "norm": np.ones(4, np.float32),
            "query": random.standard_normal((6, 4)).astype(np.float32),
            "key": 3 * random.standard_normal((3, 4)).astype(np.float32),
        }
    )


def seen(_key: str) -> tuple[InputStatistics, ...]:
    return (statistics_of(SEEN),)


@pytest.mark.parametrize(
    "search", [Search(FlexSmoothQuant()), Search(block=2, seed=7), Search(rotation="random")]
)
def test_metadata_make_the_same_transforms(search: Search) -> None:
    for choices in (Choices(stream="factors"), Choices(stream="rotation")):
        found = find_transforms(two_readers(), choices, source(), seen, search)
        known = read_metadata(found.metadata())
        again = find_transforms(two_readers(), choices, source(), seen, before=known.how)
        assert known.choices == choices
        (name,) = found.tensors
        assert np.array_equal(found.tensors[name], again.tensors[name])
        assert found.how == again.how


def test_factors_are_of_all_readers_and_one_for_dead_channels() -> None:
    search = Search(FlexSmoothQuant())
    found = find_transforms(two_readers(), Choices(stream="factors"), source(), seen, search)
    (factors,) = found.tensors.values()
    (how,) = found.how["norm#factors"]
    largest = np.maximum(*(np.abs(source().load(key)).max(axis=0) for key in ("query", "key")))
    alpha, beta = (float(how[name] or 0) for name in ("alpha", "beta"))
    expected = np.array([1.0, 8.0, 1.0, 2.0]) ** alpha / largest.astype(np.float64) ** beta
    expected[2] = 1.0
    assert np.allclose(factors, expected, rtol=1e-15)


def test_without_tokens_factors_are_one() -> None:
    found = find_transforms(
        two_readers(), Choices(stream="factors"), source(), lambda _key: (without_tokens(4),)
    )
    assert np.array_equal(found.tensors["norm#factors"], np.ones(4))


def test_a_rotation_is_made_by_its_seed() -> None:
    search = Search(seed=5)
    found = find_transforms(two_readers(), Choices(stream="rotation"), source(), seen, search)
    expected = hadamard_rotation(4, seed=5).matrix().T
    assert np.array_equal(found.tensors["stream#rotation"], expected)


@pytest.mark.parametrize("width", [1536, 2048, 512])
def test_rotations_of_deepseek_have_one_magnitude(width: int) -> None:
    rotation = hadamard_rotation(width, seed=1)
    row = rotation.apply(np.eye(1, width))
    assert np.allclose(np.abs(row), width**-0.5, rtol=1e-14)


def test_factors_need_texts() -> None:
    with pytest.raises(GraphError, match="nothing is known of what `query` reads") as found:
        find_transforms(two_readers(), Choices(stream="factors"), source(), lambda _key: None)
    assert found.value.code == "statistics-missing"


@pytest.mark.parametrize(
    "text", ["", "[]", "{}", '{"version": 2, "choices": {}, "transforms": {}}']
)
def test_other_metadata_are_refused(text: str) -> None:
    with pytest.raises(GraphError, match="this is no metadata of transforms") as found:
        read_metadata(text)
    assert found.value.code == "bad-migration"
