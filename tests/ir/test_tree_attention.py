"""A row of a draft tree attends to its own path, as if that were a chain."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from ascendfx.ir.op import Array
from ascendfx.ir.ops import RaggedAttention
from tests.ir.tree_cases import ancestors_of, depths_of, trees


def operands(positions: Array, context: int, seed: int) -> list[Array]:
    """Return queries, keys and values of rows that all belong to the second of two requests."""
    random = np.random.default_rng(seed)
    shapes = (len(positions), 4, 5), (2, context, 2, 5), (2, context, 2, 3)
    return [
        *(random.standard_normal(shape) for shape in shapes),
        positions,
        np.ones(len(positions), np.int64),
    ]


@given(length=st.integers(0, 9), rows=st.integers(1, 16), seed=st.integers(0, 99))
def test_a_chain_is_the_operation_without_a_tree(length: int, rows: int, seed: int) -> None:
    tensors = operands(length + np.arange(rows), length + rows, seed)
    (wanted,) = RaggedAttention(1, 0.5).reference(*tensors)
    chain = np.array(ancestors_of(range(-1, rows - 1)))
    for ancestors in (chain, np.zeros_like(chain)):
        (found,) = RaggedAttention(1, 0.5, tree=True).reference(*tensors, ancestors)
        np.testing.assert_array_equal(found, wanted)


@given(length=st.integers(0, 9), parents=trees(), seed=st.integers(0, 99))
def test_a_row_sees_its_own_path_only(length: int, parents: tuple[int, ...], seed: int) -> None:
    depths, ancestors = depths_of(parents), ancestors_of(parents)
    rows, context = len(parents), length + len(parents)
    q, k, v, positions, requests = operands(length + np.array(depths), context, seed)
    op = RaggedAttention(1, 0.5, tree=True)
    (found,) = op.reference(q, k, v, positions, requests, np.array(ancestors))
    for row in range(rows):
        path = [i for i in range(rows) if ancestors[row] >> i & 1]
        places = [*range(length), *(length + i for i in path)]
        alone = q[row : row + 1], k[:, places], v[:, places], positions[row : row + 1]
        (wanted,) = RaggedAttention(1, 0.5).reference(*alone, requests[:1])
        np.testing.assert_array_equal(found[row], wanted[0])
