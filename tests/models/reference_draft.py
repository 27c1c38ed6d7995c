"""What main model and draft layers compute on whole texts: in float64, at true positions.

A fused step runs the draft of depth ``j`` at the main model's position ``p``; in training the row
that reads token ``p + 1 + j`` stood at that token's position, as it does here. Nothing is paged,
chunked, kept from step to step or computed twice: every depth sees a whole text, in a cache of its
own.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np

from ascendfx.ir.capture.captured_model import CapturedModel
from ascendfx.ir.graph import Graph, GraphBuilder, Value
from ascendfx.ir.interpret import interpret
from ascendfx.ir.op import Array, Op
from ascendfx.ir.ops import Call, Cast, Input, Linear, RmsNorm
from ascendfx.ir.program import Program
from ascendfx.ir.tensor_source import TensorsByKey
from ascendfx.ir.tensor_type import DType
from ascendfx.passes.expose_hidden import CHAININGS
from ascendfx.passes.pipeline import run_pipeline
from ascendfx.passes.registry import RAISE
from ascendfx.passes.serving_steps import ServingSteps
from ascendfx.passes.shift_positions import shift_positions
from ascendfx.runtime.checkpoint.capture_model import capture_model
from ascendfx.runtime.checkpoint.traced_directory import trace_folder_of
from ascendfx.runtime.presets import TO_SERVING

BLOCK = 128
TRUE_POSITIONS = "true_positions"


@dataclass(frozen=True)
class Depth:
    """What a draft layer says of every row of a text.

    Attributes:
        logits: ``[vocabulary]``, of the last row.
        hidden: ``[tokens, width]``, what the next depth reads.
        entries: What its caches hold, ``[tokens, ...]`` each.
    """

    logits: Array
    hidden: Array
    entries: tuple[Array, ...]


@dataclass(frozen=True)
class ReferenceDraft:
    """A main model and its draft layers.

    Attributes:
        captured: Both as plain programs.
        chaining: Which hidden state a depth reads of the one before, one of `CHAININGS`.
    """

    captured: CapturedModel
    chaining: str = CHAININGS[0]

    @classmethod
    def of(cls, directory: Path) -> "ReferenceDraft":
        folder = trace_folder_of(None)
        return cls(capture_model(directory, dtype=DType.F32, drafts=True, trace_folder=folder))

    def main(self, ids: Array) -> tuple[Array, Array]:
        """Return logits and hidden states of texts of one length, ``[texts, tokens, ...]``."""
        tensors = TensorsByKey(self.captured.source, {"token_ids": ids})
        logits, hidden = interpret(self._main, tensors)
        return logits, hidden

    def draft(self, depth: int, ids: Array, hidden: Array) -> tuple[Array, Array]:
        """Return logits and hidden states of a depth, ``[texts, tokens, ...]``."""
        given = {"token_ids": ids, "hidden": hidden}
        tensors = TensorsByKey(self.captured.source, given)
        logits, *states = interpret(self._at(depth), tensors)
        return logits, states[CHAININGS.index(self.chaining)]

    def depths(self, text: Sequence[int], hidden: Array, count: int) -> list[Depth]:
        """Return what each depth says of a text whose last token has not been read yet.

        Row ``p`` of depth ``j`` reads token ``p + 1 + j``: beyond the text, the draft that an
        earlier depth made of the last row.

        Args:
            text: Token ids.
            hidden: The main model's, of all tokens but the last, ``[tokens, width]``.
            count: How many depths.
        """
        known = list(text)
        found: list[Depth] = []
        for depth in range(count):
            found.append(self._whole(depth, np.array(known[depth + 1 :]), hidden))
            hidden = found[-1].hidden
            known.append(int(np.argmax(found[-1].logits)))
        return found

    def _whole(self, depth: int, ids: Array, hidden: Array) -> Depth:
        serving = self._serving[depth % len(self._serving)]
        tensors = TensorsByKey(self.captured.source)
        steps = ServingSteps(serving, tensors, 1, table_blocks=-(-ids.size // BLOCK))
        true = {TRUE_POSITIONS: 1 + depth + np.arange(ids.size)}
        (logits,) = steps.step([ids.tolist()], hidden=hidden, **true)
        slots = steps.pages.table[0][:, None] * BLOCK + np.arange(BLOCK)
        where = slots.reshape(-1)[: ids.size]
        entries = tuple(each.reshape(-1, *each.shape[2:])[where] for each in steps.caches.values())
        return Depth(logits, steps.states[CHAININGS.index(self.chaining)], entries)

    def _at(self, depth: int) -> Program:
        return shift_positions(self._raised[depth % len(self._raised)], 1 + depth)

    @cached_property
    def _raised(self) -> list[Program]:
        # As traced, experts count pairs of tokens, which are no positions.
        return [run_pipeline(draft, RAISE)[0] for draft in self.captured.drafts]

    @cached_property
    def _serving(self) -> list[Program]:
        served = (run_pipeline(draft, TO_SERVING)[0] for draft in self.captured.drafts)
        return [rotated_apart(each) for each in served]

    @cached_property
    def _main(self) -> Program:
        """The main program that returns the hidden state that its first draft layer reads, too."""
        program, _ = run_pipeline(self.captured.program, RAISE)
        main = program.main
        (logits,) = main.outputs
        hidden = _read_by(main, logits, Linear)
        if self.chaining == "pre-norm":
            hidden = _read_by(main, hidden, RmsNorm)
        both = replace(main, outputs=(logits, hidden))
        return Program((both, *program.graphs[1:]), program.recipes)


def _read_by(main: Graph, value: Value, kind: type[Op]) -> Value:
    """Return the first operand of the operation that makes ``value``, conversions left out."""
    while isinstance(main.op_of(value), Cast):
        value = main.nodes[value.node].operands[0]
    assert isinstance(main.op_of(value), kind)
    return main.nodes[value.node].operands[0]


def rotated_apart(serving: Program) -> Program:
    """Return a serving form that rotates by an input of its own, `TRUE_POSITIONS`.

    What is left of the input ``positions`` says which entries of the cache a row may see.
    """
    main = serving.main
    builder = GraphBuilder(main.name)
    moved: dict[Value, Value] = {}
    rotating: dict[Value, Value] = {}
    for position, node in enumerate(main.nodes):
        apart = {} if isinstance(node.op, Call) else rotating
        operands = (apart.get(value, moved[value]) for value in node.operands)
        results = builder.add_multi(node.op, *operands)
        moved.update((Value(position, i), result) for i, result in enumerate(results))
        if isinstance(node.op, Input) and node.op.name == "positions":
            op = Input(TRUE_POSITIONS, node.op.type)
            rotating[Value(position)] = builder.add(op)
    graph = builder.build(*(moved[value] for value in main.outputs))
    return Program((graph, *serving.graphs[1:]), serving.recipes)
