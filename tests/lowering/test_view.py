"""Views are checked against NumPy: what NumPy can view, we can view, at the same addresses."""

import numpy as np
from hypothesis import assume, given
from hypothesis import strategies as st

from ascendfx.codegen.ascendc.lowering.view import (
    dense_view,
    expand_view,
    reshape_view,
    slice_view,
    transpose_view,
)
from ascendfx.ir.graph import Value
from ascendfx.ir.size import named_size
from ascendfx.ir.tensor_type import DType, TensorType

ROWS = named_size("rows")
REQUESTS = named_size("requests")
CAPACITY = {"rows": 6, "requests": 1, "context": 10}
ROOT = Value(0)


def dense(*shape):
    return dense_view(ROOT, TensorType(DType.F32, shape), CAPACITY)


def addresses(view):
    """Return the element number of every element of a view with known sizes."""
    numbers = np.full((), view.offset)
    for size, stride in zip(view.shape, view.strides, strict=True):
        numbers = numbers[..., None] + stride * np.arange(size)
    return numbers


@st.composite
def views(draw):
    shape = tuple(draw(st.lists(st.integers(1, 4), min_size=1, max_size=4)))
    view, array = dense(*shape), np.arange(int(np.prod(shape))).reshape(shape)
    for _ in range(draw(st.integers(0, 3))):
        axis = draw(st.integers(0, len(view.shape) - 1))
        match draw(st.sampled_from(("slice", "transpose", "expand"))):
            case "slice":
                start = draw(st.integers(0, view.shape[axis] - 1))
                stop = draw(st.integers(start + 1, view.shape[axis]))
                step = draw(st.integers(1, 2))
                view = slice_view(view, axis, start, stop, step)
                array = array[(slice(None),) * axis + (slice(start, stop, step),)]
            case "transpose":
                order = tuple(draw(st.permutations(range(array.ndim))))
                view, array = transpose_view(view, order), array.transpose(order)
            case _:
                wider = (2, *(3 if size == 1 else size for size in array.shape))
                view, array = expand_view(view, wider), np.broadcast_to(array, wider)
        assume(array.ndim <= 5)
    return view, array


@given(views())
def test_slices_transposes_and_expansions_address_what_numpy_addresses(case):
    view, array = case
    np.testing.assert_array_equal(addresses(view), array)


@given(views(), st.data())
def test_a_reshaped_view_addresses_what_numpy_addresses(case, data):
    view, array = case
    shape = tuple(data.draw(st.sampled_from(_factorisations(array.size))))
    reshaped = reshape_view(view, shape, CAPACITY)
    if reshaped is not None:
        np.testing.assert_array_equal(addresses(reshaped), array.reshape(shape))


@given(views(), st.data())
def test_reshape_gives_up_only_where_numpy_copies(case, data):
    view, array = case
    assume(0 not in view.strides)
    base = np.arange(4096)
    strided = np.lib.stride_tricks.as_strided(
        base[view.offset :], array.shape, [8 * stride for stride in view.strides]
    )
    shape = tuple(data.draw(st.sampled_from(_factorisations(array.size))))
    if reshape_view(view, shape, CAPACITY) is None:
        assert not np.shares_memory(strided.reshape(shape), base)


def _factorisations(size, axes=3):
    if axes == 0:
        return [()] if size == 1 else []
    splits = [
        (first, *rest)
        for first in range(1, size + 1)
        if size % first == 0
        for rest in _factorisations(size // first, axes - 1)
    ]
    return [*splits, *(_factorisations(size, axes - 1))]


def test_heads_split_and_merge_below_a_named_size():
    view = reshape_view(dense(ROWS, 8), (ROWS, 2, 4), CAPACITY)
    assert view.strides == (8, 4, 1)
    assert reshape_view(view, (ROWS, 8), CAPACITY).strides == (8, 1)


def test_rows_of_each_head_do_not_merge_because_a_step_has_fewer_rows_than_the_buffer():
    by_head = dense(2, ROWS, 4)
    assert by_head.strides == (24, 4, 1)
    assert reshape_view(by_head, (2 * ROWS, 4), CAPACITY) is None


def test_pairs_of_a_row_become_rows():
    assert reshape_view(dense(ROWS, 2), (2 * ROWS,), CAPACITY).strides == (1,)
    assert reshape_view(dense(2 * ROWS), (ROWS, 2), CAPACITY).strides == (2, 1)


def test_an_axis_whose_capacity_is_one_disappears():
    context = named_size("context")
    view = dense(REQUESTS, context, 8)
    assert view.strides == (80, 8, 1)
    assert reshape_view(view, (REQUESTS * context, 8), CAPACITY).strides == (8, 1)
    assert reshape_view(view, (REQUESTS, context, 2, 4), CAPACITY).strides[1:] == (8, 4, 1)


def test_a_slice_of_columns_keeps_its_row_distance():
    part = slice_view(dense(ROWS, 3, 8), 2, 2, 6, 1)
    assert (part.offset, part.strides, part.shape) == (2, (24, 8, 1), (ROWS, 3, 4))
    assert reshape_view(part, (ROWS, 12), CAPACITY) is None
