"""Run a program along the float64 truth of the captured one, layer by layer.

Rounding errors grow from layer to layer, so that those of a whole model hide small mistakes. Here
every program of a pipeline starts each layer with the values that the captured program has there.
What a layer makes of them may differ by the rounding of that layer alone.
"""

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from ascendfx.ir.graph import Node
from ascendfx.ir.op import Array
from ascendfx.ir.ops import Call
from ascendfx.ir.program import Program
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_names import LOGIT_ROWS
from ascendfx.passes.run_on_tokens import Form, form_of
from ascendfx.passes.serving_signature import further_inputs
from ascendfx.passes.serving_steps import Pages, block_tokens, caches_after, empty_caches
from ascendfx.passes.verification.run_with_noise import Follow, Noisy, NoisyRunner, Run, undisturbed

_STEPS = 2
"""Steps of a serving form: the second reads what the first has cached."""

_BLOCK = 4
"""Tokens of a cache block here."""

_SEED = 0


@dataclass(frozen=True)
class Truth:
    """What the captured program computes in float64, with and without rounding noise.

    Attributes:
        tokens: Ids ``[texts, tokens]``.
        calls: Results of each call of the entry, ``[texts, tokens, ...]``.
        logits: ``[texts, tokens, vocab]``.
        given: Further inputs of the entry, such as the hidden states that a draft layer reads,
            ``[texts, tokens, ...]``.
        states: What the entry returns beside the logits, ``[texts, tokens, ...]``.
    """

    tokens: Array
    calls: tuple[tuple[Noisy, ...], ...]
    logits: Noisy
    given: Mapping[str, Array] = field(default_factory=dict[str, Array])
    states: tuple[Noisy, ...] = ()

    def part(self, value: Array, pick: Callable[[Array], Array]) -> Array | None:
        """Return what ``pick`` takes of ``[texts, tokens, ...]``; None for any other array."""
        return pick(value) if value.shape[:2] == self.tokens.shape else None


@dataclass(frozen=True)
class Step:
    """One execution of an entry beside the truth.

    Attributes:
        runner: Executes further, for a closer look.
        inputs: Of the entry.
        follow: What continued after each call.
        run: What came out.
        pick: The part of an array of the truth that this step computes, in the shape it has there.
        pick_logits: The same for logits: a serving form has those of last tokens alone.
    """

    runner: NoisyRunner
    inputs: Mapping[str, Noisy]
    follow: Follow
    run: Run
    pick: Callable[[Array], Array]
    pick_logits: Callable[[Array], Array]

    def logits(self, truth: Truth) -> Noisy:
        """Return the part of logits that this step computes."""
        value, noisy = truth.logits
        return self.pick_logits(value), self.pick_logits(noisy)

    def states(self, truth: Truth) -> tuple[Noisy, ...]:
        """Return the part of what comes beside the logits that this step computes."""
        return tuple((self.pick(value), self.pick(noisy)) for value, noisy in truth.states)


def drawn_inputs(program: Program, tokens: Array) -> dict[str, Array]:
    """Return what a captured program reads beside ids ``[texts, tokens]``, drawn.

    Draft layers read hidden states: numbers of unit variance, as norms leave them.
    """
    random = np.random.default_rng(_SEED)
    sizes = _sizes(tokens)
    return {
        name: random.standard_normal([bind_size(size, sizes) for size in kind.shape])
        for name, kind in further_inputs(program).items()
    }


def find_truth(program: Program, tensors: Mapping[str, Array], tokens: Array) -> Truth:
    """Return the truth of a captured program on ids ``[texts, tokens]``.

    What it reads beside them is drawn.
    """
    given = drawn_inputs(program, tokens)
    runner = NoisyRunner(program, tensors, _sizes(tokens))
    run = runner.entry(
        _undisturbed({"token_ids": tokens, **given}),
        follow=lambda _, outputs: tuple(undisturbed(v) for v, _ in outputs),
    )
    logits, *states = run.outputs
    calls = tuple(call.outputs for call in run.calls)
    return Truth(tokens, calls, logits, given, tuple(states))


def follow_truth(
    program: Program,
    tensors: Mapping[str, Array],
    truth: Truth,
    *,
    noise: bool = True,
    steps: int = _STEPS,
    every_row: bool = False,
) -> Iterator[Step]:
    """Yield the steps in which a program of any form computes what the truth has.

    Calls whose number or sizes are not those of the truth are not followed: such a program is
    compared as a whole, with the bound of the whole.

    Args:
        program: Of any form.
        tensors: The checkpoint by key.
        truth: What it is compared with.
        noise: Whether to run with noise, too.
        steps: Into how many steps a serving form cuts the texts.
        every_row: Whether a serving form computes the logits of all rows instead of the last ones.
    """
    follower = _Follower(program, tensors, truth, noise)
    match form_of(program):
        case Form.CAPTURED:
            yield follower.step(_captured(truth))
        case Form.ROWS:
            for text in range(len(truth.tokens)):
                yield follower.step(_rows(truth, text))
        case Form.SERVING | Form.STEP:
            yield from _in_steps(follower, steps, every_row=every_row)


@dataclass(frozen=True)
class _Plan:
    inputs: Mapping[str, Noisy]
    sizes: Mapping[str, int]
    pick: Callable[[Array], Array]
    pick_logits: Callable[[Array], Array]


def _captured(truth: Truth) -> _Plan:
    inputs = _undisturbed({"token_ids": truth.tokens, **truth.given})
    return _Plan(inputs, _sizes(truth.tokens), lambda a: a, lambda a: a)


def _rows(truth: Truth, text: int) -> _Plan:
    def pick(array: Array) -> Array:
        return array[text]

    inputs = {name: pick(each) for name, each in {"token_ids": truth.tokens, **truth.given}.items()}
    return _Plan(_undisturbed(inputs), {"rows": truth.tokens.shape[1]}, pick, pick)


def _in_steps(follower: "_Follower", steps: int, *, every_row: bool) -> list[Step]:
    """Run with small cache blocks, so that a short text fills several of them.

    No operation asks how large a block is but through its cache; a program that does so otherwise
    is run with blocks of its own size.
    """
    try:
        return _serving(follower, steps, _BLOCK, every_row=every_row)
    except (ValueError, IndexError):
        return _serving(follower, steps, block_tokens(follower.program), every_row=every_row)


def _serving(follower: "_Follower", steps: int, block: int, *, every_row: bool) -> list[Step]:
    truth, program = follower.truth, follower.program
    texts, tokens = truth.tokens.shape
    pages = Pages(texts, -(-tokens // block) + 1, block)
    caches = {
        name: undisturbed(_with_blocks(each, block))
        for name, each in empty_caches(program, pages.blocks).items()
    }
    cuts = np.linspace(0, tokens, min(steps, tokens) + 1).astype(int).tolist()
    found: list[Step] = []
    for part in pairwise(cuts):
        plan = _part(truth, pages, caches, part)
        found.append(follower.step(_of_every_row(plan) if every_row else plan))
        caches = caches_after(program, found[-1].run.outputs)
    return found


def _with_blocks(cache: Array, block: int) -> Array:
    return np.full((cache.shape[0], block, *cache.shape[2:]), np.nan)


def _part(truth: Truth, pages: Pages, caches: Mapping[str, Noisy], part: tuple[int, int]) -> _Plan:
    first, end = part
    ids = truth.tokens[:, first:end]
    controls = pages.controls(ids.tolist(), [first] * len(ids), range(len(ids)))
    sizes = {
        "rows": ids.size,
        "requests": len(ids),
        "context": end,
        "blocks": pages.blocks,
        "table_blocks": pages.table_blocks,
    }

    def pick(array: Array) -> Array:
        return array[:, first:end].reshape(ids.size, *array.shape[2:])

    given = {name: pick(each) for name, each in truth.given.items()}
    inputs = _undisturbed({**given, **controls}) | dict(caches)
    return _Plan(inputs, sizes, pick, lambda a: a[:, end - 1])


def _of_every_row(plan: _Plan) -> _Plan:
    """Return a step in which each row is a request of its own, on the blocks of its text."""
    rows = plan.sizes["rows"]
    numbers = np.arange(rows, dtype=np.int32)
    owner, table = (plan.inputs[name][0] for name in ("row_request", "block_table"))
    own = {"row_request": numbers, LOGIT_ROWS: numbers, "block_table": table[owner]}
    sizes = {**plan.sizes, "requests": rows}
    return replace(
        plan, inputs={**plan.inputs, **_undisturbed(own)}, sizes=sizes, pick_logits=plan.pick
    )


def _undisturbed(arrays: Mapping[str, Array]) -> dict[str, Noisy]:
    return {name: undisturbed(each) for name, each in arrays.items()}


@dataclass(frozen=True)
class _Follower:
    program: Program
    tensors: Mapping[str, Array]
    truth: Truth
    noise: bool

    @property
    def calls_of_entry(self) -> list[Node]:
        """The calls of layers."""
        return [node for node in self.program.main.nodes if isinstance(node.op, Call)]

    def step(self, plan: _Plan) -> Step:
        runner = NoisyRunner(self.program, self.tensors, plan.sizes, noise=self.noise)
        calls = self.truth.calls

        def follow(number: int, outputs: tuple[Noisy, ...]) -> tuple[Noisy, ...]:
            known = calls[number] if number < len(calls) else ()
            parts = [self.truth.part(value, plan.pick) for value, _ in known]
            fits = len(parts) <= len(outputs) and len(self.calls_of_entry) == len(calls)
            if not fits or any(
                part is None or part.shape != own.shape
                for part, (own, _) in zip(parts, outputs, strict=False)
            ):
                return outputs
            return (*(undisturbed(p) for p in parts if p is not None), *outputs[len(parts) :])

        run = runner.entry(plan.inputs, follow)
        return Step(runner, plan.inputs, follow, run, plan.pick, plan.pick_logits)


def _sizes(tokens: Array) -> dict[str, int]:
    return {"batch": tokens.shape[0], "tokens": tokens.shape[1]}
