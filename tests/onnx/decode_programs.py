"""Programs of captured models, and inputs of a step of theirs."""

from functools import cache

import numpy as np

from ascendfx.ir.op import Array
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.passes.absorb_projections import AbsorbProjections
from ascendfx.passes.derive_incremental_form import DeriveIncrementalForm
from ascendfx.passes.fold_weights import FoldWeights
from ascendfx.passes.random_weights import random_weights
from ascendfx.passes.share_common import ShareCommon
from tests.passes.load_program import load

BLOCK = 4


@cache
def decode(name: str) -> Program:
    derived = DeriveIncrementalForm(block_tokens=BLOCK).run(load(name)).program
    absorbed = AbsorbProjections().run(derived).program
    return ShareCommon().run(FoldWeights().run(absorbed).program).program


def step_tensors(
    name: str, program: Program, seed: int, *, block: int = BLOCK
) -> tuple[dict[str, Array], dict[str, int]]:
    """Return a step of two requests with 5 and 2 cached tokens: three rows, one row, one padding.

    What no row may look at is not a number.
    """
    random = np.random.default_rng(seed)
    table = np.array([[3, 0, 1], [2, 5, 4]])
    requests, positions = np.array([0, 0, 0, 1, 0]), np.array([5, 6, 7, 2, 0])
    slots = table[requests, positions // block] * block + positions % block
    slots[-1] = -1
    tensors = {
        **random_weights(load(name), seed),
        "token_ids": random.integers(0, 11, 5),
        "positions": positions,
        "slots": slots,
        "row_request": requests,
        "block_table": table,
        "logit_rows": np.array([2, 3]),
    }
    known = [
        table[r, t // block] * block + t % block for r, n in ((0, 5), (1, 2)) for t in range(n)
    ]
    for cache_name, kind in program.main.input_types.items():
        if cache_name.startswith("cache."):
            shape = [bind_size(d, {"blocks": 6}) for d in kind.shape]
            flat = np.full((shape[0] * shape[1], *shape[2:]), np.nan)
            flat[known] = random.standard_normal((len(known), *shape[2:]))
            tensors[cache_name] = flat.reshape(shape)
    return tensors, {"context": 8}
