"""Values as strided views of buffers, with sizes that are known only as capacities."""

from collections.abc import Mapping
from dataclasses import dataclass, replace
from itertools import pairwise

from ascendfx.ir.graph import Value
from ascendfx.ir.size import Dim, bind_size, product, substitute_size
from ascendfx.ir.tensor_type import DType, TensorType

CapacityOf = Mapping[str, int]
"""Largest value of each named size."""


@dataclass(frozen=True, slots=True)
class View:
    """Where the elements of a value lie inside a buffer; all distances in elements.

    Attributes:
        root: The value whose buffer it is.
        dtype: Element format in memory.
        shape: As in the graph, sizes may be named.
        strides: Distance of neighbours on each axis; 0 where the value repeats.
        offset: Place of the first element.
    """

    root: Value
    dtype: DType
    shape: tuple[Dim, ...]
    strides: tuple[int, ...]
    offset: int = 0

    def type(self) -> TensorType:
        """Return the type of the value in memory."""
        return TensorType(self.dtype, self.shape)


def storage_dtype(dtype: DType) -> DType:
    """Return the format in memory: 64-bit integers are ids and indices, which fit 32 bits."""
    return DType.I32 if dtype is DType.I64 else dtype


def dense_view(root: Value, kind: TensorType, capacity: CapacityOf) -> View:
    """Return the row-major view of a whole buffer with room for every capacity."""
    return View(
        root, storage_dtype(kind.dtype), kind.shape, row_major(capacities(kind.shape, capacity))
    )


def capacities(shape: tuple[Dim, ...], capacity: CapacityOf) -> tuple[int, ...]:
    """Return the shape at full capacity."""
    return tuple(bind_size(size, capacity) for size in shape)


def row_major(shape: tuple[int, ...]) -> tuple[int, ...]:
    """Return the strides of a dense tensor."""
    strides: list[int] = []
    step = 1
    for size in reversed(shape):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def slice_view(view: View, axis: int, start: int, stop: Dim, step: int) -> View:
    """Return the part ``start:stop:step`` of one axis."""
    length = -(-(stop - start) // step) if isinstance(stop, int) else stop - start
    shape = (*view.shape[:axis], length, *view.shape[axis + 1 :])
    stride = view.strides[axis]
    strides = (*view.strides[:axis], stride * step, *view.strides[axis + 1 :])
    return replace(view, shape=shape, strides=strides, offset=view.offset + start * stride)


def transpose_view(view: View, permutation: tuple[int, ...]) -> View:
    """Return the view with axes in another order."""
    return replace(
        view,
        shape=tuple(view.shape[axis] for axis in permutation),
        strides=tuple(view.strides[axis] for axis in permutation),
    )


def expand_view(view: View, shape: tuple[Dim, ...]) -> View:
    """Return the view repeated to ``shape``, to which its own shape broadcasts."""
    missing = len(shape) - len(view.shape)
    own = (1,) * missing + view.shape
    strides = (0,) * missing + view.strides
    repeated = tuple(
        0 if size == 1 and wanted != 1 else stride
        for size, wanted, stride in zip(own, shape, strides, strict=True)
    )
    return replace(view, shape=shape, strides=repeated)


def reshape_view(view: View, shape: tuple[Dim, ...], capacity: CapacityOf) -> View | None:
    """Return the same elements under another shape, or None if they would have to move.

    Neighbouring axes merge when the outer one steps over exactly one inner axis. The row count of
    a step is below the capacity, so an axis over a *named* size never merges with an outer one.
    """
    strides: list[int] = []
    axes = [i for i, size in enumerate(view.shape) if bind_size(size, capacity) != 1]
    taken = 0
    for group in _groups(tuple(view.shape[i] for i in axes), shape, capacity) or ():
        old, new = group
        members = axes[taken : taken + old]
        taken += old
        if any(not _merges(view, i, j) for i, j in pairwise(members)):
            return None
        split = _split_strides(new, view.strides[members[-1]] if members else 0, capacity)
        if split is None:
            return None
        strides += split
    if len(strides) != len(shape):
        return None
    return replace(view, shape=shape, strides=tuple(strides))


def _merges(view: View, outer: int, inner: int) -> bool:
    size = view.shape[inner]
    return isinstance(size, int) and view.strides[outer] == size * view.strides[inner]


def _split_strides(shape: tuple[Dim, ...], step: int, capacity: CapacityOf) -> list[int] | None:
    """Return strides of axes that together step through one merged axis."""
    strides: list[int] = []
    for i, size in reversed(list(enumerate(shape))):
        strides.append(step)
        outer_moves = any(bind_size(each, capacity) != 1 for each in shape[:i])
        if not isinstance(size, int) and outer_moves:
            return None
        step *= bind_size(size, capacity)
    return strides[::-1]


def _groups(
    old: tuple[Dim, ...], new: tuple[Dim, ...], capacity: CapacityOf
) -> list[tuple[int, tuple[Dim, ...]]] | None:
    """Pair runs of old axes with runs of new axes of the same size; the smallest such runs.

    Each pair is the number of old axes and the sizes of the new ones. Old axes have more than one
    element; new axes of one element go with the run before them.
    """
    groups: list[tuple[int, tuple[Dim, ...]]] = []
    i = j = 0
    while j < len(new):
        first_old, first_new = i, j
        if i < len(old):
            i += 1
        j += 1
        while not _same(old[first_old:i], new[first_new:j], capacity):
            behind = _count(old[first_old:i], capacity) < _count(new[first_new:j], capacity)
            if behind and i < len(old):
                i += 1
            elif j < len(new):
                j += 1
            else:
                return None
        while j < len(new) and bind_size(new[j], capacity) == 1:
            j += 1
        groups.append((i - first_old, new[first_new:j]))
    return groups if i == len(old) else None


def _count(shape: tuple[Dim, ...], capacity: CapacityOf) -> int:
    return bind_size(product(shape), capacity)


def _same(a: tuple[Dim, ...], b: tuple[Dim, ...], capacity: CapacityOf) -> bool:
    """Return whether both have as many elements for every size of a step."""
    units: dict[str, Dim] = {name: 1 for name, most in capacity.items() if most == 1}
    counts = [substitute_size(product(shape), units) for shape in (a, b)]
    return counts[0] == counts[1]
