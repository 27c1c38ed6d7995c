"""A small closed decode step: its text, its inputs, its plan."""

import numpy as np

from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.step_state import STEP_COLUMNS, Finish, Option, State
from ascendfx.ir.text.parser import parse_program

TARGET = find_target("ascend910b")
VOCABULARY, HIDDEN, CONTEXT, BLOCKS, STEPS = 24, 32, 256, 64, 3
ROWS = ("token_ids", "positions", "slots", "state", "emitted", "step")
IN_PLACE = (*ROWS, "cache.0.0", "cache.counts")


def step_text(drafts):
    """Return a step whose next token depends on the token, and drafts that are often right."""
    lines = [
        'input "token_ids" : i32[rows]',
        'input "positions" : i32[rows]',
        'input "slots" : i32[rows]',
        'input "row_request" : i32[rows]',
        'input "block_table" : i32[requests, table_blocks]',
        'input "state" : i32[requests, 16]',
        'input "stop_ids" : i32[requests, 8]',
        f'input "emitted" : i32[steps, requests, {drafts + 2}]',
        'input "step" : i32[16]',
        f'input "cache.0.0" : f32[blocks, 128, {HIDDEN}]',
        'input "options" : f32[requests, 16]',
        f'input "cache.counts" : i32[places, {VOCABULARY}]',
        f'param "embedding" : f32[{VOCABULARY}, {HIDDEN}]',
        f'param "head" : f32[{VOCABULARY}, {HIDDEN}]',
        f"gather_rows %12, %0 : f32[rows, {HIDDEN}]",
        f"cache_write %9, %2, %14 : f32[blocks, 128, {HIDDEN}]",
        f"linear %14, %13 : f32[rows, {VOCABULARY}]",
        "argmax %16 : i32[rows]",
        f"verify_drafts %0, %17, %5 {{drafts={drafts}}} : {', '.join(['i32[requests]'] * 3)}",
    ]
    ids, new, found = "%0", "%18.2", []
    for depth in range(drafts):
        at = len(lines)
        lines += [
            f"shift_tokens {ids}, %18.1, %3, {new} {{depth={depth}}} : i32[rows]",
            f"gather_rows %12, %{at} : f32[rows, {HIDDEN}]",
            f"gather_rows %{at + 1}, %18.1 : f32[requests, {HIDDEN}]",
            f'param "draft" : f32[{VOCABULARY}, {HIDDEN}]',
            f"linear %{at + 2}, %{at + 3} : f32[requests, {VOCABULARY}]",
            f"argmax %{at + 4} : i32[requests]",
        ]
        ids, new = f"%{at}", f"%{at + 5}"
        found.append(new)
    rows = "i32[rows], i32[rows], i32[rows]"
    kinds = f"{rows}, i32[requests, 16], i32[steps, requests, {drafts + 2}], i32[16], "
    kinds += f"i32[places, {VOCABULARY}]"
    operands = ", ".join(("%0", "%1", "%2", "%4", "%5", "%6", "%18", "%18.2", "%7", "%8"))
    operands = ", ".join((operands, "%11", "%10", *found))
    lines.append(f"advance_requests {operands} {{drafts={drafts}}} : {kinds}")
    body = "".join(f"  %{i} = {line}\n" for i, line in enumerate(lines))
    last = f"%{len(lines) - 1}"
    changed = ", ".join([last, *(f"{last}.{i}" for i in range(1, 6))])
    return f"graph @main {{\n{body}  return %17, %16, {changed}, %15, {last}.6\n}}\n"


def lower(text, requests, drafts, steps=STEPS):
    return lower_program(
        parse_program(text),
        target=TARGET,
        rows=requests * (drafts + 1),
        requests=requests,
        context=CONTEXT,
        blocks=BLOCKS,
        name="decode",
        steps=steps,
        drafts=drafts,
    )


def checkpoint():
    random = np.random.default_rng(3)
    head = random.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
    noise = random.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
    embedding = random.standard_normal((VOCABULARY, HIDDEN)).astype(np.float32)
    return {"embedding": embedding, "head": head, "draft": head + np.float32(0.5) * noise}


def first_step(requests, drafts):
    random = np.random.default_rng(requests)
    rows = requests * (drafts + 1)
    state = np.zeros((requests, 16), np.int32)
    state[:, State.LENGTH] = random.integers(120, 130, requests)
    state[:, State.LIMIT] = random.integers(3, 30, requests)
    state[:, State.DRAFTS] = random.integers(0, drafts + 1, requests)
    state[1::5, State.FINISHED] = Finish.EMPTY
    stops = np.full((requests, 8), -1, np.int32)
    stops[:, 3] = random.integers(0, VOCABULARY, requests)
    table = random.permutation(BLOCKS)[: requests * 2].reshape(requests, 2)
    positions = state[:, State.LENGTH, None] + np.arange(drafts + 1)
    slots = np.take_along_axis(table, positions // 128, 1) * 128 + positions % 128
    slots[state[:, State.FINISHED] > 0] = -1
    ids = np.zeros((requests, drafts + 1))
    ids[:, 0] = random.integers(0, VOCABULARY, requests)
    state[:, State.PLACE] = random.permutation(requests)
    options = np.zeros((requests, 16), np.float32)
    options[::2, Option.FREQUENCY] = 0.25
    given = {
        "token_ids": ids.reshape(rows),
        "positions": positions.reshape(rows),
        "slots": slots.reshape(rows),
        "row_request": np.repeat(np.arange(requests), drafts + 1),
        "block_table": table,
        "state": state,
        "stop_ids": stops,
        "emitted": np.full((STEPS, requests, drafts + 2), -7),
        "step": np.zeros(STEP_COLUMNS),
    }
    numbers = {name: each.astype(np.int32) for name, each in given.items()}
    return {**numbers, "options": options}
