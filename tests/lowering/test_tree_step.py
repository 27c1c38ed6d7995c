"""Steps that verify a draft tree: the plan computes the operations, and greedy text is plain."""

import numpy as np
import pytest

from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.diagnostic import GraphError
from ascendfx.ir.interpret import interpret
from ascendfx.ir.step_state import Finish, State
from ascendfx.ir.tensor_source import ArraySource, TensorsByKey
from ascendfx.ir.text.parser import parse_program
from tests.ir.tree_cases import ancestors_of, depths_of
from tests.lowering.plan_runner import PlanRunner

TARGET = find_target("ascend910b")
VOCABULARY, REQUESTS, CONTEXT, BLOCKS = 12, 3, 256, 9
CACHES = "cache.0.0", "cache.0.1"
WEIGHTS = {"x": (12, 16), "rope": (12, 8), "q": (32, 16), "q_rope": (16, 16), "head": (12, 32)}
TREES = {
    "root": (-1,),
    "chain": (-1, 0, 1, 2),
    "wide": (-1, 0, 0, 0, 1, 2, 4),
    "deep": (-1, 0, 0, 1, 2, 4, 5, 6),
}


def step_text(parents, values=("%20", 16)):
    """Return a step of one layer whose entries are made of tokens alone."""
    nodes, (values, width) = len(parents), values
    body = f"""\
        input "token_ids" : i32[rows]
        input "positions" : i32[rows]
        input "slots" : i32[rows]
        input "row_request" : i32[rows]
        input "ancestors" : i32[rows]
        input "block_table" : i32[requests, table_blocks]
        input "state" : i32[requests, 16]
        input "cache.0.0" : f32[blocks, 128, 16]
        input "cache.0.1" : f32[blocks, 128, 8]
        param "x" : f32[12, 16]
        param "rope" : f32[12, 8]
        param "q" : f32[32, 16]
        param "q_rope" : f32[16, 16]
        param "head" : f32[12, {2 * width}]
        gather_rows %9, %0 : f32[rows, 16]
        gather_rows %10, %0 : f32[rows, 8]
        cache_write %7, %2, %14 : f32[blocks, 128, 16]
        cache_write %8, %2, %15 : f32[blocks, 128, 8]
        cache_read %16, %5 {{context=<context>}} : f32[requests, context, 16]
        cache_read %17, %5 {{context=<context>}} : f32[requests, context, 8]
        reshape %18 {{shape=[<requests>, <context>, 1, 16]}} : f32[requests, context, 1, 16]
        reshape %19 {{shape=[<requests>, <context>, 1, 8]}} : f32[requests, context, 1, 8]
        linear %14, %11 : f32[rows, 32]
        linear %14, %12 : f32[rows, 16]
        reshape %22 {{shape=[<rows>, 2, 16]}} : f32[rows, 2, 16]
        reshape %23 {{shape=[<rows>, 2, 8]}} : f32[rows, 2, 8]
        ragged_attention %24, %25, %20, %21, {values}, %1, %3, %4 \
{{parts=2, scale=0.5, tree=true}} : f32[rows, 2, {width}]
        reshape %26 {{shape=[<rows>, {2 * width}]}} : f32[rows, {2 * width}]
        linear %27, %13 : f32[rows, 12]
        argmax %28 : i32[rows]
        verify_tree %0, %29, %6 {{parents=[{", ".join(map(str, parents))}]}} : \
i32[requests], i32[requests], i32[requests], i32[requests, {nodes}]
        move_entries %16, %17, %5, %6, %30.3 {{nodes={nodes}, caches=2}} : \
f32[blocks, 128, 16], f32[blocks, 128, 8]"""
    lines = "".join(f"  %{i} = {line.strip()}\n" for i, line in enumerate(body.splitlines()))
    return f"graph @main {{\n{lines}  return %29, %28, %30, %30.2, %30.3, %31, %31.1\n}}\n"


def lower(text, nodes):
    return lower_program(
        parse_program(text),
        target=TARGET,
        rows=REQUESTS * nodes,
        requests=REQUESTS,
        context=CONTEXT,
        blocks=BLOCKS,
        name="decode",
        drafts=nodes - 1,
        results=("next_tokens", "logits", "accepted", "new_tokens", "path"),
    )


def checkpoint():
    random = np.random.default_rng(7)
    return {
        name: random.standard_normal(shape).astype(np.float32) for name, shape in WEIGHTS.items()
    }


def controls(parents, table, lengths, ids, runs):
    """Return what a step reads: node ``i`` at position ``LENGTH + depth``, slot ``LENGTH + i``."""
    nodes = len(parents)
    places = lengths[:, None] + np.arange(nodes)
    slots = np.take_along_axis(table, places // 128, 1) * 128 + places % 128
    state = np.zeros((REQUESTS, 16))
    state[:, State.LENGTH], state[:, State.DRAFTED] = lengths, nodes - 1
    state[~runs, State.FINISHED] = Finish.EMPTY
    given = {
        "token_ids": ids.reshape(-1),
        "positions": (lengths[:, None] + np.array(depths_of(parents))).reshape(-1),
        "slots": np.where(runs[:, None], slots, -1).reshape(-1),
        "row_request": np.repeat(np.arange(REQUESTS), nodes),
        "ancestors": np.tile(ancestors_of(parents), REQUESTS),
        "block_table": table,
        "state": state,
    }
    return {name: each.astype(np.int32) for name, each in given.items()}


def plain_text(prompts, tokens):
    """Return the greedy continuation of each prompt, computed without a cache or a tree."""
    w = {name: each.astype(np.float64) for name, each in checkpoint().items()}
    for prompt in prompts:
        text = list(prompt)
        while len(text) < len(prompt) + tokens:
            x, rope = w["x"][text], w["rope"][text]
            scores = (w["q"] @ x[-1]).reshape(2, 16) @ x.T
            scores = 0.5 * (scores + (w["q_rope"] @ x[-1]).reshape(2, 8) @ rope.T)
            weights = np.exp(scores - scores.max(axis=1, keepdims=True))
            weights /= weights.sum(axis=1, keepdims=True)
            text.append(int(np.argmax(w["head"] @ (weights @ x).reshape(-1))))
        yield text


def drafts(parents, text, at, random):
    """Return tokens of nodes of which some continue the text."""
    right = np.array(text)[at + np.array(depths_of(parents))]
    kept = random.random(len(parents)) < 0.5
    kept[0] = True
    return np.where(kept, right, random.integers(0, VOCABULARY, len(parents)))


@pytest.mark.parametrize("name", TREES)
def test_steps_with_trees_write_the_plain_text(name):
    parents, random = TREES[name], np.random.default_rng(3)
    nodes, text = len(parents), step_text(parents)
    plan, weights = lower(text, nodes)
    runner = PlanRunner(plan, weights, checkpoint(), TARGET)
    lengths = np.array([126, 3, 60])
    prompts = [random.integers(0, VOCABULARY, length + 1) for length in lengths]
    wanted = list(plain_text(prompts, 40))
    table = random.permutation(BLOCKS)[: 2 * REQUESTS].reshape(REQUESTS, 2)
    caches = {name: np.zeros(runner.array(name).shape, np.float32) for name in CACHES}
    for prompt, length, blocks in zip(prompts, lengths, table, strict=True):
        token = np.arange(length)
        for cache, source in zip(caches.values(), ("x", "rope"), strict=True):
            cache[blocks[token // 128], token % 128] = checkpoint()[source][prompt[:-1]]
    for cache, values in caches.items():
        runner.array(cache)[:] = values
    moved, runs = 0, np.array([True, True, True])
    for step in range(6):
        runs[2] = step < 3
        at = zip(wanted, lengths, strict=True)
        ids = np.array([drafts(parents, *each, random) for each in at])
        inputs = controls(parents, table, lengths, ids, runs)
        sizes = REQUESTS * nodes, REQUESTS, CONTEXT
        found = [each.copy() for each in runner.step(inputs, sizes)]
        results = interpret(
            parse_program(text),
            TensorsByKey(ArraySource(checkpoint()), {**inputs, **caches}),
            sizes={"context": CONTEXT},
        )
        for i in (0, 2, 3, 4):
            np.testing.assert_array_equal(found[i], results[i])
        for cache, values in zip(CACHES, results[5:], strict=True):
            np.testing.assert_array_equal(runner.array(cache), values, err_msg=cache)
            caches[cache] = values.astype(np.float32)
        accepted, new, path = found[2:]
        for b in np.flatnonzero(runs):
            emitted = [*ids[b][path[b][1 : accepted[b] + 1]], new[b]]
            assert emitted == wanted[b][lengths[b] + 1 :][: len(emitted)]
        moved += (path > np.arange(nodes))[runs].sum()
        lengths = lengths + np.where(runs, accepted + 1, 0)
    assert (moved > 0) == (name in ("wide", "deep"))
    assert lengths[0] > 128 or name == "root"


def test_a_tree_over_other_values_than_the_cached_vectors_is_refused():
    text = step_text(TREES["wide"], ("%21", 8))
    with pytest.raises(GraphError, match="rows in a draft tree over expanded keys") as caught:
        lower(text, len(TREES["wide"]))
    assert caught.value.code == "no-kernel"
    assert "absorb the projections" in caught.value.hint


def test_what_entries_were_before_they_moved_cannot_be_returned():
    text = step_text(TREES["wide"]).replace("return %29, %28,", "return %29, %18,")
    with pytest.raises(GraphError, match="its old contents are used afterwards") as caught:
        lower(text, len(TREES["wide"]))
    assert caught.value.excerpt.startswith("%31 = move_entries")


def test_rows_that_are_not_those_of_the_nodes_are_refused():
    with pytest.raises(GraphError, match="12 rows are not the rows of 3 places with 6 drafts"):
        lower(step_text(TREES["wide"]), 4)
