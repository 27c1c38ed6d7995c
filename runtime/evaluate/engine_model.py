"""An engine as a model that predicts: texts are fed to its decode steps token by token."""

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from ascendfx.ir.cache_block import blocks_for
from ascendfx.runtime.engine.engine import Engine
from ascendfx.runtime.engine.prefill import without_meaning
from ascendfx.runtime.evaluate.language_model import (
    Continuation,
    Ids,
    ModelCard,
    Prediction,
    Stop,
)
from ascendfx.runtime.evaluate.wrong_numbers import no_numbers
from ascendfx.runtime.executor.step import StepInputs

_AT_ONCE = 8
"""Tokens between two looks at whether an answer has ended."""


@dataclass(frozen=True, slots=True, eq=False)
class EngineModel:
    """Runs what an engine runs: kernels, caches and formats are those of serving.

    Attributes:
        card: What is to be known of the model.
        engine: Has a decode plan; nothing else uses it.
    """

    card: ModelCard
    engine: Engine

    def predict(self, ids: Ids) -> Prediction:
        """Return the logits of a text.

        Raises:
            GraphError: The logits are no numbers.
            EmulatorError: A kernel broke a rule of the chip.
        """
        executor = self.engine.executor
        table = np.zeros((1, executor.capacities("decode").table_blocks), np.int32)
        used = blocks_for(len(ids))
        table[0, :used] = np.arange(used)
        rows: list[np.ndarray] = []
        for position, token in enumerate(ids):
            step = _step(token, position, table)
            logits = executor.run("decode", step).logits[0].astype(np.float64)
            if without_meaning(logits[None]):
                raise no_numbers(self.card.name)
            rows.append(logits)
        return Prediction(np.stack(rows))

    def go_on(self, ids: Ids, most: int, stop: Stop) -> Continuation:
        """Return at most so many likeliest tokens behind a text.

        Raises:
            GraphError: As of `Engine.generate`.
        """
        before = self.engine.metrics
        made: list[int] = []
        for piece in self.engine.stream([ids], max_new_tokens=most, group_steps=_AT_ONCE):
            made += piece.token_ids
            if stop(made):
                break
        after = self.engine.metrics
        return Continuation(
            tuple(_up_to(made, stop)),
            sum(after.accepted) - sum(before.accepted),
            sum(after.proposed) - sum(before.proposed),
        )


def _up_to(ids: Sequence[int], stop: Stop) -> Sequence[int]:
    """Return the tokens up to the first that ends them: some may have been made behind it."""
    for count in range(1, len(ids)):
        if stop(ids[:count]):
            return ids[:count]
    return ids


def _step(token: int, position: int, table: np.ndarray) -> StepInputs:
    """Return a step of one request."""
    at = np.array([position], np.int32)
    return StepInputs(
        token_ids=np.array([token], np.int32),
        positions=at,
        slots=at,  # blocks of the table are in order
        row_request=np.zeros(1, np.int32),
        block_table=table,
        logit_rows=np.zeros(1, np.int32),
        context=position + 1,
    )
