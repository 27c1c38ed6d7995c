"""A device for measuring the host: V3's launches without their kernels, tokens out of nowhere."""

import time
from collections import deque
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ascendfx.codegen.ascendc.launch_plan import Buffer, LaunchPlan, Place
from ascendfx.codegen.ascendc.lowering.lower_program import lower_program
from ascendfx.codegen.ascendc.target import find_target
from ascendfx.ir.ops.advance_requests import AdvanceRequests
from ascendfx.ir.size import bind_size
from ascendfx.ir.step_names import RECENT
from ascendfx.ir.text.parser import parse_program
from ascendfx.passes.drop_placeholders import DropPlaceholders
from ascendfx.passes.step_inputs import decode_controls, recent_tokens
from ascendfx.runtime.executor.null import NullExecutor
from ascendfx.runtime.executor.step import StepInputs, StepOutputs
from ascendfx.runtime.lowering import results_of
from tests.lowering.closed_step import step_text
from tests.lowering.serving_programs import V3, serving_program

BLOCK_TOKENS = 128
CONTEXT = 8192
GROUP = 8
"""Steps of which the device keeps the tokens."""
ACCEPTANCE = 0.8
_CACHES = 4 << 20
"""Bytes, more than two levels of caches; the third one belongs to many."""
VOCABULARY = 129280
_TARGET = find_target("ascend910b")
_MAIN_ROWS = 32  # the list of launches does not depend on it
_IN_PLACE = ("token_ids", "positions", "slots", "state", "emitted", "step")
_OPERANDS = ("token_ids", "positions", "slots", "block_table", "state", "stop_ids")


def main_launches(drafts: int) -> LaunchPlan:
    """Return V3's decode step, and a mixture-of-experts layer more for each draft."""
    shape = replace(V3, moe_layers=V3.moe_layers + drafts)
    sizes = {"rows": _MAIN_ROWS, "requests": _MAIN_ROWS, "context": CONTEXT, "blocks": 4096}
    return lower_program(serving_program(shape), target=_TARGET, name="main", **sizes)[0]


def decode_plan(main: LaunchPlan, batch: int, drafts: int) -> LaunchPlan:
    """Return those launches, and those which verify, draft and prepare the next step."""
    program = DropPlaceholders().run(parse_program(step_text(drafts))).program
    closing = lower_program(
        program,
        target=_TARGET,
        rows=batch * (drafts + 1),
        requests=batch,
        context=CONTEXT,
        blocks=batch * CONTEXT // BLOCK_TOKENS,
        name="close",
        steps=GROUP,
        drafts=drafts,
        results=results_of(program),
    )[0]
    # What sampling and several drafts read is here for the engine to write.
    controls = {**decode_controls(drafts), RECENT: recent_tokens()}
    sizes = {"rows": batch * (drafts + 1), "requests": batch, "steps": GROUP}
    sizes["table_blocks"] = closing.capacities.table_blocks
    known = [
        Buffer(name, kind.dtype, tuple(bind_size(d, sizes) for d in kind.shape), Place.CONTROL)
        for name, kind in controls.items()
    ]
    buffers = {each.name: each for each in (*main.buffers, *known, *closing.buffers)}
    return replace(
        closing,
        name="decode",
        buffers=tuple(buffers.values()),
        launches=(*main.launches, *closing.launches),
        kernels=(*main.kernels, *closing.kernels),
    )


class SimulatedDevice:
    """A null executor whose decode plan leaves behind what its kernels would.

    Attributes:
        seconds: Spent on standing in for kernels, which is no time of the host.
        cold: Empty the caches of the host in every run, as its other work does while it waits.
    """

    def __init__(self, plan: LaunchPlan, seed: int = 0) -> None:
        self.seconds, self.cold = 0.0, False
        self._ahead: deque[tuple[NDArray[np.int32], NDArray[np.int32]]] = deque()
        self._junk = np.zeros(_CACHES, np.uint8)
        self._drafts = plan.capacities.drafts
        prefill = replace(plan, name="prefill", launches=())
        self._executor = NullExecutor({"decode": plan, "prefill": prefill})
        self._random = np.random.default_rng(seed)
        self._advance = AdvanceRequests(self._drafts, BLOCK_TOKENS)
        self.tools = self._executor.tools
        self.capacities = self._executor.capacities
        self.control = self._executor.control
        self.counts = self._executor.counts

    def run(self, plan: str, inputs: StepInputs) -> StepOutputs:
        """Return tokens for a prompt."""
        del plan, inputs
        token = np.ones(1, np.int32)
        return StepOutputs(token, np.ones((1, 1), np.float32), (token,) * self._drafts)

    def prepare(self, groups: int, steps: int) -> None:
        """Do what the kernels of the next groups would do, by NumPy, and keep what they leave.

        A group then copies what a card would: all this, in the middle of the host's work, would
        empty its caches the more, the larger the batch is.
        """
        emitted, state = self.control("decode", "emitted"), self.control("decode", "state")
        for _ in range(groups):
            self.control("decode", "step")[0] = 0
            for _ in range(steps):
                self._step("decode")
            self._ahead.append((emitted.copy(), state.copy()))

    def run_steps(self, plan: str, steps: int) -> None:
        """Go through the launches, then leave what they would have left."""
        self._executor.run_steps(plan, steps)
        start = time.perf_counter()
        if not self._ahead:
            self.prepare(1, steps)
        for name, values in zip(("emitted", "state"), self._ahead.popleft(), strict=True):
            np.copyto(self.control(plan, name), values)
        if self.cold:
            self.empty_caches()
        self.seconds += time.perf_counter() - start

    def empty_caches(self) -> None:
        """Write to more memory than the caches of a core hold."""
        self._junk += 1

    def launch_only(self, steps: int) -> None:
        """Go through the launches of the decode plan."""
        self._executor.run_steps("decode", steps)

    def _step(self, plan: str) -> None:
        places = int(self.control(plan, "sizes")[1])
        rows = places * (self._drafts + 1)
        hits = self._random.random((places, self._drafts)) < ACCEPTANCE
        accepted = np.logical_and.accumulate(hits, axis=1).sum(axis=1).astype(np.int32)
        tokens = self._random.integers(2, VOCABULARY, (self._drafts + 1, places), np.int32)
        given: list[NDArray[Any]] = []
        for name in _OPERANDS:
            count = rows if name in ("token_ids", "positions", "slots") else places
            given.append(self.control(plan, name)[:count])
        ring = self.control(plan, "emitted")[:, :places]
        counts, options = np.zeros((places, 1), np.int32), self.control(plan, "options")[:places]
        *results, _ = self._advance.reference(
            *given,
            accepted,
            tokens[0],
            ring,
            self.control(plan, "step"),
            counts,
            options,
            *tokens[1:],
        )
        for name, values in zip(_IN_PLACE, results, strict=True):
            target = ring if name == "emitted" else self.control(plan, name)
            target[: len(values)] = values
