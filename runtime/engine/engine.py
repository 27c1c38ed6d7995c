"""The engine: batched greedy generation over any executor."""

from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence, Set
from operator import index
from os import PathLike
from typing import TYPE_CHECKING

import numpy as np

from ascendfx.ir.diagnostic import GraphError
from ascendfx.runtime.arguments import check_flag, check_function, checked_path, wrong_type
from ascendfx.runtime.checked_limit import checked_limit
from ascendfx.runtime.engine.block_pool import BlockPool
from ascendfx.runtime.engine.request import ActiveRequest, Generation
from ascendfx.runtime.engine.serving_config import ServingConfig
from ascendfx.runtime.engine.step_builder import build_step
from ascendfx.runtime.engine.text_codec import TextCodec
from ascendfx.runtime.executor.step import Executor, StepOutputs
from ascendfx.runtime.number_range import first_not_finite

if TYPE_CHECKING:
    from ascendfx.runtime.compiled_model import CompiledModel

Prompt = str | Sequence[int]
"""Text, or token ids."""
TokenProgress = Callable[[int, int], None]
"""``progress(tokens so far, largest possible number)``."""


class Engine:
    """Serves requests with one compiled model.

    Attributes:
        config: Limits and token ids of the model.
        executor: Runs the steps.
        compiled: What the engine runs, if it was made from a model or a package.
    """

    def __init__(
        self,
        config: ServingConfig,
        executor: Executor,
        codec: TextCodec | None = None,
        *,
        compiled: "CompiledModel | None" = None,
    ) -> None:
        self.config = config
        self.compiled = compiled
        self.executor = executor
        self._codec = codec
        self._pool = BlockPool(executor.capacities("decode").blocks)

    def generate(
        self,
        prompts: Sequence[Prompt],
        *,
        max_new_tokens: int = 64,
        min_new_tokens: int = 0,
        stop_at_eos: bool = True,
        progress: TokenProgress | None = None,
    ) -> list[Generation]:
        """Return one greedy continuation per prompt, in order.

        More prompts than the plan's batch wait until a place is free. A request's tokens do not
        depend on its batch mates.

        Args:
            prompts: Texts or token ids, none of them empty.
            max_new_tokens: Limit per request, at least 1.
            min_new_tokens: Until a request has so many, the best token that is no end token is
                taken, as ``min_new_tokens`` of transformers does.
            stop_at_eos: End a request at an end token of the model.
            progress: Called after each step.

        Raises:
            GraphError: A prompt is empty, has ids outside the vocabulary, or does not fit into the
                plan's context together with ``max_new_tokens``; text was given and the package has
                no tokenizer; or the model's numbers overflow.
        """
        max_new_tokens = checked_limit("max_new_tokens", max_new_tokens, least=1)
        min_new_tokens = checked_limit("min_new_tokens", min_new_tokens, least=0)
        check_flag("stop_at_eos", stop_at_eos)
        if progress is not None:
            check_function("progress", progress)
        if isinstance(prompts, str):
            raise GraphError(
                "bad-prompt", "prompts is one string", hint="pass a list: generate([prompt])"
            )
        if isinstance(prompts, bytes) or not isinstance(prompts, Iterable):  # pyright: ignore[reportUnnecessaryIsInstance]
            raise wrong_type("prompts", prompts, "a list of texts or of token ids")
        requests = [
            ActiveRequest(
                i, self._encode(i, prompt, max_new_tokens), max_new_tokens, min_new_tokens
            )
            for i, prompt in enumerate(prompts)
        ]
        self._run(requests, stop_at_eos=stop_at_eos, progress=progress)
        return [self._finished(request) for request in requests]

    def save(self, directory: "str | PathLike[str]") -> None:
        """Write kernels, plans, weights and tokenizer to a folder for `ascendfx.load`.

        Raises:
            GraphError: The place is taken by something else, or the disk is full or not writable.
        """
        from ascendfx.runtime.package.save_package import save_package  # noqa: PLC0415

        if self.compiled is None:
            raise GraphError(
                code="nothing-to-save",
                reason="this engine was not made from a compiled model",
                hint="copy the package that it was loaded from",
            )
        save_package(self.compiled, checked_path("directory", directory))

    def _encode(self, number: int, prompt: Prompt, new_tokens: int) -> tuple[int, ...]:
        if isinstance(prompt, str):
            if self._codec is None:
                raise GraphError(
                    "no-tokenizer", "the model came without a tokenizer", hint="pass token ids"
                )
            ids = tuple(self._codec.encode(prompt))
        else:
            ids = _token_ids(number, prompt)
        if not ids:
            raise GraphError(
                "empty-prompt",
                f"prompt {number} has no tokens",
                hint="start with the model's begin token, or leave the prompt out",
            )
        wrong = next((each for each in ids if not 0 <= each < self.config.vocabulary), None)
        if wrong is not None:
            raise GraphError(
                code="token-range",
                reason=f"prompt {number} holds token id {wrong}, "
                f"the vocabulary has ids 0..{self.config.vocabulary - 1}",
                hint="the ids come from the tokenizer of another model",
            )
        context = self.executor.capacities("decode").context
        if len(ids) + new_tokens > context:
            raise GraphError(
                code="context-limit",
                reason=f"prompt {number} has {len(ids)} tokens, with {new_tokens} new ones "
                f"{len(ids) + new_tokens}; the plan serves {context}",
                hint="compile with a larger `max_context`, or ask for fewer tokens",
            )
        return ids

    def _run(
        self,
        requests: Sequence[ActiveRequest],
        *,
        stop_at_eos: bool,
        progress: TokenProgress | None,
    ) -> None:
        waiting = deque(requests)
        running: list[ActiveRequest] = []
        batch = self.executor.capacities("decode").requests
        total = sum(request.limit for request in requests)
        stops = self.config.end_tokens if stop_at_eos else frozenset[int]()
        try:
            while waiting or running:
                # Alone, a request that does not fit never will: taking its blocks says so.
                while waiting and len(running) < batch and (self._fits(waiting[0]) or not running):
                    running.append(self._admit(waiting.popleft(), stops))
                    running = self._drop_finished(running)
                if running:
                    self._decode(running, stops)
                    running = self._drop_finished(running)
                if progress:
                    done = sum(
                        request.limit if request.finish_reason else len(request.generated)
                        for request in requests
                    )
                    progress(done, total)
        finally:
            for request in running:
                self._release(request)

    def _fits(self, request: ActiveRequest) -> bool:
        return self._blocks_for(request) <= self._pool.free

    def _blocks_for(self, request: ActiveRequest) -> int:
        # The last new token is never read again, so it needs no cache entry.
        return -(-(len(request.prompt) + request.limit - 1) // self.config.block_tokens)

    def _admit(self, request: ActiveRequest, stops: frozenset[int]) -> ActiveRequest:
        """Reserve the blocks and prefill the prompt in chunks; the last one gives a token."""
        request.blocks = self._pool.take(self._blocks_for(request))
        try:
            self._prefill(request, stops)
        except BaseException:  # also an interruption: the engine can be used again
            self._release(request)
            raise
        return request

    def _prefill(self, request: ActiveRequest, stops: frozenset[int]) -> None:
        chunk = self.executor.capacities("prefill").rows
        last = (len(request.prompt) - 1) // chunk * chunk
        while request.cached < last:
            self._step("prefill", [request], [chunk])
        outputs = self._step("prefill", [request], [len(request.prompt) - last])
        self._append(request, 0, outputs, stops)

    def _decode(self, running: Sequence[ActiveRequest], stops: frozenset[int]) -> None:
        outputs = self._step("decode", running, [1] * len(running))
        for row, request in enumerate(running):
            self._append(request, row, outputs, stops)

    def _step(
        self, plan: str, requests: Sequence[ActiveRequest], counts: Sequence[int]
    ) -> StepOutputs:
        inputs = build_step(
            requests,
            counts,
            block_tokens=self.config.block_tokens,
            table_blocks=self.executor.capacities(plan).table_blocks,
        )
        outputs = self.executor.run(plan, inputs)
        _check_logits(plan, requests, outputs)
        for request, count in zip(requests, counts, strict=True):
            request.cached += count
        return outputs

    def _append(
        self, request: ActiveRequest, row: int, outputs: StepOutputs, stops: frozenset[int]
    ) -> None:
        token = int(outputs.next_tokens[row])
        if len(request.generated) < request.minimum and token in self.config.end_tokens:
            allowed = outputs.logits[row].astype(np.float64)
            ends = [each for each in self.config.end_tokens if 0 <= each < allowed.size]
            allowed[ends] = -np.inf
            token = int(np.argmax(allowed))
        if token in stops:
            request.finish_reason = "stop"
            return
        request.generated.append(token)
        if len(request.generated) == request.limit:
            request.finish_reason = "length"

    def _drop_finished(self, running: Sequence[ActiveRequest]) -> list[ActiveRequest]:
        for request in running:
            if request.finish_reason:
                self._release(request)
        return [request for request in running if not request.finish_reason]

    def _release(self, request: ActiveRequest) -> None:
        self._pool.give_back(request.blocks)
        request.blocks = []

    def _finished(self, request: ActiveRequest) -> Generation:
        ids = tuple(request.generated)
        text = self._codec.decode(ids) if self._codec else ""
        return Generation(request.prompt, ids, text, request.finish_reason)


def _check_logits(plan: str, requests: Sequence[ActiveRequest], outputs: StepOutputs) -> None:
    """Refuse a step that chose among numbers which are none, or are all zero.

    A norm whose squares overflow divides by infinity: nothing is left of the row but zeros.
    """
    place = first_not_finite(outputs.logits)
    if place is not None:
        row, found = place[0], f"the logit of token id {place[1]} is {float(outputs.logits[place])}"
    else:
        alive = outputs.logits.any(axis=1)
        if alive.all():
            return
        row, found = int(alive.argmin()), "all logits are zero"
    raise GraphError(
        code="logits-overflow",
        reason=f"prompt {requests[row].index}: {found} in a step of plan `{plan}`",
        hint="the model's numbers overflow, or its output weights are zero: look at the weights, "
        'or compare with executor="reference", which computes in float64',
    )


def _token_ids(number: int, prompt: Sequence[int]) -> tuple[int, ...]:
    """Return the ids of a prompt; integers of NumPy and tensors of one element will do."""
    if isinstance(prompt, bytes | bytearray | Mapping | Set):
        raise _no_prompt(number, f"`{type(prompt).__name__}` holds no ids in order")
    try:
        return tuple(map(index, prompt))
    except TypeError as error:
        raise _no_prompt(number, str(error)) from error


def _no_prompt(number: int, why: str) -> GraphError:
    return GraphError(
        "bad-prompt",
        f"prompt {number} is neither text nor a list of token ids: {why}",
        hint="pass a list of prompts: generate([[1, 2, 3]])",
    )
