"""Which values share a scale, against loops over single values."""

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.diagnostic import GraphError
from ascendfx.quant_passes.scaling.granularity import (
    Granularity,
    PerBlock,
    PerChannel,
    PerGroup,
    PerTensor,
    PerToken,
)
from ascendfx.quant_passes.scaling.pieces import as_rows, places, row_scales

Index = tuple[int, ...]


def scale_of(granularity: Granularity, index: Index) -> Index:
    """Return the index of the scale of the value at an index."""
    match granularity:
        case PerTensor():
            return (0,) * len(index)
        case PerGroup(size):
            return (*index[:-1], index[-1] // size)
        case PerBlock(rows, columns):
            return (*index[:-2], index[-2] // rows, index[-1] // columns)
        case _:
            return (*index[:-1], 0)


@st.composite
def cases(draw: st.DrawFn) -> tuple[Granularity, tuple[int, ...]]:
    rows, groups, size = (draw(st.integers(1, 5)) for _ in range(3))
    leading = tuple(draw(st.lists(st.integers(1, 3), max_size=2)))
    shape = (*leading, rows, groups * size)
    granularity = draw(
        st.sampled_from(
            [
                *(PerTensor(), PerChannel(), PerToken(), PerGroup(size)),
                *(PerBlock(2, 3), PerBlock(1, size), PerBlock(128, 128)),
            ]
        )
    )
    return granularity, shape


@given(case=cases())
def test_spread_and_reduce_against_single_values(
    case: tuple[Granularity, tuple[int, ...]],
) -> None:
    granularity, shape = case
    target = granularity.scale_shape(shape)
    scales = np.arange(np.prod(target, dtype=int)).reshape(target).astype(float)
    spread = np.broadcast_to(granularity.spread(scales, shape), shape)
    wanted = np.empty(shape)
    for index in np.ndindex(shape):
        wanted[index] = scales[scale_of(granularity, index)]
    np.testing.assert_array_equal(spread, wanted)

    values = np.random.default_rng(0).standard_normal(shape)
    largest = granularity.reduce(values, np.maximum)
    assert largest.shape == target
    for index in np.ndindex(target):
        members = [values[i] for i in np.ndindex(shape) if scale_of(granularity, i) == index]
        assert largest[index] == max(members)


@given(case=cases(), limit=st.integers(1, 30))
def test_pieces_cover_everything_once(
    case: tuple[Granularity, tuple[int, ...]], limit: int
) -> None:
    granularity, shape = case
    scales = np.random.default_rng(0).standard_normal(granularity.scale_shape(shape))
    by_row, seen = row_scales(scales, granularity, shape), np.zeros(shape, int)
    wanted = as_rows(np.broadcast_to(granularity.spread(scales, shape), shape))
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("ascendfx.quant_passes.scaling.pieces._VALUES", limit)
        for place in places(shape, granularity):
            as_rows(seen)[place] += 1
            part = np.broadcast_to(by_row.at(place), as_rows(seen)[place].shape)
            np.testing.assert_array_equal(part, wanted[place])
    assert (seen == 1).all()


def _empty() -> Iterator[tuple[Granularity, tuple[int, ...], tuple[int, ...]]]:
    yield PerTensor(), (0, 4), (1, 1)
    yield PerTensor(), (), ()
    yield PerChannel(), (0, 4), (0, 1)
    yield PerChannel(), (4, 0), (4, 1)
    yield PerGroup(2), (4, 0), (4, 0)
    yield PerBlock(2, 2), (0, 4), (0, 2)
    yield PerBlock(2, 2), (3, 0), (2, 0)


@pytest.mark.parametrize(("granularity", "shape", "scales"), list(_empty()))
def test_empty_tensors(
    granularity: Granularity, shape: tuple[int, ...], scales: tuple[int, ...]
) -> None:
    values = np.zeros(shape, np.float32)
    assert granularity.scale_shape(shape) == scales
    assert granularity.reduce(values, np.maximum).shape == scales
    assert np.broadcast_to(granularity.spread(np.ones(scales), shape), shape).shape == shape


def test_the_partial_block_of_kv_a_proj() -> None:
    assert PerBlock(128, 128).scale_shape((576, 7168)) == (5, 56)


@pytest.mark.parametrize(
    ("size", "length", "near"),
    [
        (100, 7168, "64, 112, 128, 56"),
        (128, 576, "72, 96, 144, 192"),
        (7, 13, "1, 13"),
    ],
)
def test_a_group_that_does_not_divide_gets_proposals(size: int, length: int, near: str) -> None:
    with pytest.raises(GraphError) as refused:
        PerGroup(size).scale_shape((4, length))
    assert refused.value.code == "bad-granularity"
    assert f"groups of {size} do not divide the last axis of [4, {length}]" in str(refused.value)
    proposed = refused.value.hint.split("one of ")[1].split("?")[0]
    assert set(proposed.split(", ")) == set(near.split(", "))
    assert all(length % int(each) == 0 for each in proposed.split(", "))


@pytest.mark.parametrize(
    "attempt",
    [
        lambda: PerGroup(0),
        lambda: PerGroup(-32),
        lambda: PerGroup(32.0),  # pyright: ignore[reportArgumentType]
        lambda: PerBlock(128, "128"),  # pyright: ignore[reportArgumentType]
        lambda: PerBlock(0, 128),
        lambda: PerBlock(128, -1),
        lambda: PerBlock(2, 2).scale_shape((4,)),
        lambda: PerChannel().scale_shape(()),
        lambda: PerGroup(2).scale_shape(()),
        lambda: PerChannel().spread(np.ones((1, 4)), (4, 8)),
        lambda: PerBlock(2, 2).spread(np.ones((2, 2)), (5, 4)),
        lambda: PerTensor().spread(np.ones(1), (5, 4)),
    ],
)
def test_sizes_and_scales_that_do_not_fit(attempt: object) -> None:
    with pytest.raises(GraphError) as refused:
        attempt()  # pyright: ignore[reportCallIssue]
    assert refused.value.code == "bad-granularity"
