"""Random checkpoints and steps for the serving programs, and what they should give."""

import numpy as np

from ascendfx.ir.cache_block import BLOCK_TOKENS
from ascendfx.ir.ops import Call, Param
from ascendfx.ir.tensor_type import DType

BLOCK = BLOCK_TOKENS


def checkpoint(program, seed=0):
    """Return a tensor for every checkpoint key, scaled so that values stay near one."""
    random = np.random.default_rng(seed)
    kinds = {}
    for graph in program.graphs:
        kinds |= _keys(program, graph)
    return {key: _tensor(random, key, kind) for key, kind in sorted(kinds.items())}


def _keys(program, graph):
    """Return the type of every key a graph reads, in all calls of it."""
    calls = [
        dict(node.op.keys)
        for caller in program.graphs
        for node in caller.nodes
        if isinstance(node.op, Call) and node.op.callee == graph.name
    ] or [None]
    kinds = {}
    for node in graph.nodes:
        if isinstance(node.op, Param):
            recipe = program.recipes.get((graph.name, node.op.name))
            inner = [node.op] if recipe is None else [recipe.op_of(v) for v in recipe.params]
            for op in inner:
                for keys in calls:
                    kinds[keys[op.name] if keys else op.name] = op.type
    return kinds


def _tensor(random, key, kind):
    if key.endswith("inv_freq"):
        count = kind.shape[0]
        return (10000.0 ** (-np.arange(count) / count)).astype(kind.dtype.numpy)
    values = random.standard_normal(kind.shape)
    if "norm" in key:
        values = 1 + 0.1 * values
    elif "bias" in key:
        values = 0.1 * values
    elif "embed" not in key:
        values = values / np.sqrt(kind.shape[-1])
    return values.astype(kind.dtype.numpy)


def decode_step(random, requests, context, blocks, vocabulary):
    """Return the inputs of a step with one token per request, and its sizes."""
    positions = random.integers(0, context, requests)
    table_blocks = -(-context // BLOCK)
    pages = random.permutation(blocks)[: requests * table_blocks].reshape(requests, table_blocks)
    slots = pages[np.arange(requests), positions // BLOCK] * BLOCK + positions % BLOCK
    inputs = {
        "token_ids": random.integers(0, vocabulary, requests),
        "positions": positions,
        "slots": slots,
        "row_request": np.arange(requests),
        "block_table": pages,
        "logit_rows": np.arange(requests),
    }
    return inputs, (requests, requests, int(positions.max()) + 1)


def random_caches(random, program, blocks):
    """Return filled caches."""
    caches = {}
    for name, kind in program.main.input_types.items():
        if name.startswith("cache."):
            shape = (blocks, *kind.shape[1:])
            values = random.standard_normal(shape)
            if kind.dtype is DType.I8:
                values = random.integers(-127, 128, shape)
            elif kind.rank == 3 and kind.shape[-1] == 1:  # scales of codes
                values = (1 + np.abs(values)) / 127
            caches[name] = values.astype(kind.dtype.numpy)
    return caches


def prefill_step(random, rows, start, blocks, vocabulary):
    """Return the inputs of a chunk of one request that starts at ``start``, and its sizes."""
    positions = start + np.arange(rows)
    pages = random.permutation(blocks)[:2].reshape(1, 2)
    inputs = {
        "token_ids": random.integers(0, vocabulary, rows),
        "positions": positions,
        "slots": pages[0, positions // BLOCK] * BLOCK + positions % BLOCK,
        "row_request": np.zeros(rows, int),
        "block_table": pages,
        "logit_rows": np.array([rows - 1]),
    }
    return inputs, (rows, 1, start + rows)
