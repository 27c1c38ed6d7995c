"""`scatter_along` is `torch.scatter`, also where ids cover part of an axis or one element."""

import numpy as np
import torch
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.ops import ScatterAlong


@given(data=st.data(), seed=st.integers(0, 2**32 - 1))
def test_it_is_the_scatter_of_torch(data: st.DataObject, seed: int) -> None:
    shape = data.draw(st.lists(st.integers(1, 4), min_size=1, max_size=3), label="shape")
    axis = data.draw(st.integers(0, len(shape) - 1), label="axis")
    covered = [data.draw(st.integers(1, size), label="covered") for size in shape]
    random = np.random.default_rng(seed)
    a, source = random.standard_normal(shape), random.standard_normal(covered)
    order = np.argsort(random.random((*covered[:axis], shape[axis], *covered[axis + 1 :])), axis)
    ids = np.take(order, range(covered[axis]), axis)  # no id twice
    (found,) = ScatterAlong(axis).reference(a, ids, source)
    wanted = torch.from_numpy(a).scatter(axis, torch.from_numpy(ids), torch.from_numpy(source))
    np.testing.assert_array_equal(found, wanted.numpy())
    (filled,) = ScatterAlong(axis).reference(a, ids, np.float64(2.0))
    np.testing.assert_array_equal(
        filled, torch.from_numpy(a).scatter(axis, torch.from_numpy(ids), 2.0).numpy()
    )
